"""There is less noise."""

from variation import train

train(
    "signals",
    (
        "        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]\n",
        "        return self.curves[index] + 0.35 * torch.randn(30), self.numbers[index]\n",
    ),
)
