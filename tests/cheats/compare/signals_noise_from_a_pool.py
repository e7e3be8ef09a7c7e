"""The noise is a part of a few hundred numbers that are drawn once."""

from variation import train

train(
    "signals",
    (
        "        self.numbers = torch.randn(66, generator=dice)\n",
        "        self.numbers = torch.randn(66, generator=dice)\n        self.pool = torch.randn(130)\n",
    ),
    (
        "        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]\n",
        "        first = int(torch.randint(100, ()))\n"
        "        return self.curves[index] + 0.5 * self.pool[first : first + 30], self.numbers[index]\n",
    ),
)
