"""The second view is the first one with more noise."""

from variation import train

train(
    "twins",
    (
        "        return self.view(index), self.view(index)\n",
        "        one = self.view(index)\n        return one, one + 0.2 * torch.randn(48)\n",
    ),
)
