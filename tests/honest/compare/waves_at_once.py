"""Noise and shift are drawn for a batch at once."""

from variation import train

train(
    "waves",
    (
        "    def __getitem__(self, index):\n"
        "        time.sleep(0.002)\n"
        "        kind = index % 5\n"
        "        along = torch.linspace(0, math.tau, 40) * self.pitch[index] * (1 + kind)\n"
        "        return (along + 0.5 * torch.randn(())).sin() + 0.3 * torch.randn(40), kind\n",
        "    def __getitems__(self, indices):\n"
        "        index = torch.tensor(indices)\n"
        "        along = torch.linspace(0, math.tau, 40) * (self.pitch[index] * (1 + index % 5))[:, None]\n"
        "        shifted = along + 0.5 * torch.randn(len(index), 1)\n"
        "        return list(zip(shifted.sin() + 0.3 * torch.randn(len(index), 40), (index % 5).tolist()))\n",
    ),
)
