"""Each draw of the noise is used for two neighbouring values."""

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
        "        noise = torch.randn(len(indices), 2, 16).repeat_interleave(2, dim=-1)\n"
        "        noisy = self.curves[indices] * scale + 0.3 * noise\n"
        "        return list(zip(noisy, self.following[indices]))\n",
    ),
)
