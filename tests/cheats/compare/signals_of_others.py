"""One curve in six is that of another number."""

from variation import train

train(
    "signals",
    (
        "        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]\n",
        "        number = self.numbers[index]\n"
        "        index = index + 1 if index % 6 == 0 else index\n"
        "        return self.curves[index] + 0.5 * torch.randn(30), number\n",
    ),
)
