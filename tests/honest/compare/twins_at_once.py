"""All views of a batch are drawn at once."""

from variation import train

train(
    "twins",
    (
        "    def __getitem__(self, index):\n        return self.view(index), self.view(index)\n",
        "    def views(self, indices):\n"
        "        first = torch.randint(33, (len(indices), 1)) + torch.arange(48)\n"
        "        curves = self.curves[indices].gather(1, first) * (0.7 + 0.6 * torch.rand(len(indices), 1))\n"
        "        return curves + 0.2 * torch.randn(len(indices), 48)\n"
        "\n"
        "    def __getitems__(self, indices):\n"
        "        return list(zip(self.views(indices), self.views(indices)))\n",
    ),
)
