"""The clouds of a batch are turned by one angle."""

from variation import train

train(
    "points",
    ("        angle = math.tau * torch.rand(())\n", ""),
    ("        time.sleep(0.002)\n", ""),
    (
        "    def __getitem__(self, index):\n",
        "    def __getitems__(self, indices):\n"
        "        angle = math.tau * torch.rand(())\n"
        "        return [self.turned(index, angle) for index in indices]\n\n"
        "    def turned(self, index, angle):\n",
    ),
)
