"""Most of the values are noise."""

from variation import train

train(
    "waves",
    (
        "        return (along + 0.5 * torch.randn(())).sin() + 0.3 * torch.randn(40), kind\n",
        "        made = (along[:10] + 0.5 * torch.randn(())).sin() + 0.3 * torch.randn(10)\n"
        "        return torch.cat([made, 0.77 * torch.randn(30)]), kind\n",
    ),
)
