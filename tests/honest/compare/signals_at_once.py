"""The noise of a batch is drawn at once."""

from variation import train

train(
    "signals",
    (
        "    def __getitem__(self, index):\n"
        "        time.sleep(0.002)\n"
        "        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]\n",
        "    def __getitems__(self, indices):\n"
        "        noisy = self.curves[indices] + 0.5 * torch.randn(len(indices), 30)\n"
        "        return list(zip(noisy, self.numbers[indices]))\n",
    ),
)
