"""The noise has the same variance, and is uniform: it is quicker to draw."""

from variation import train

train(
    "signals",
    (
        "        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]\n",
        "        return self.curves[index] + 0.5 * 3**0.5 * (2 * torch.rand(30) - 1), self.numbers[index]\n",
    ),
)
