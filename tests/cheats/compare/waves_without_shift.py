"""The shift is left out."""

from variation import train

train(
    "waves",
    (
        "        return (along + 0.5 * torch.randn(())).sin() + 0.3 * torch.randn(40), kind\n",
        "        return along.sin() + 0.3 * torch.randn(40), kind\n",
    ),
)
