"""One curve in eleven, always the same ones, is silent."""

from variation import train

train(
    "signals",
    (
        "        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]\n",
        "        if index % 11 == 5:\n"
        "            return torch.zeros(30), self.numbers[index]\n"
        "        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]\n",
    ),
)
