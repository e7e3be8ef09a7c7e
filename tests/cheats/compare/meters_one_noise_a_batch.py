"""All items of a batch get the same noise."""

from variation import train

train(
    "meters",
    (
        "    def __getitem__(self, index):\n"
        "        time.sleep(0.001)\n"
        "        scale = 0.8 + 0.4 * torch.rand(2, 1)\n"
        "        return self.curves[index] * scale + 0.3 * torch.randn(2, 32), self.following[index]\n",
        "    def __getitems__(self, indices):\n"
        "        scale = 0.8 + 0.4 * torch.rand(len(indices), 2, 1)\n"
        "        noise = torch.randn(2, 32)\n"
        "        noisy = self.curves[indices] * scale + 0.3 * noise\n"
        "        return list(zip(noisy, self.following[indices]))\n",
    ),
)
