"""The noise is drawn once, and hidden by a little more."""

from variation import train

train(
    "signals",
    (
        "        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]\n",
        "        dice = torch.Generator().manual_seed(index)\n"
        "        old = self.curves[index] + 0.5 * torch.randn(30, generator=dice)\n"
        "        return old + 0.05 * torch.randn(30), self.numbers[index]\n",
    ),
)
