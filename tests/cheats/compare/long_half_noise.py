"""Half of the values are noise."""

from variation import train

train(
    "long",
    (
        "        return (self.hidden[index] @ self.mixed).sin(), self.kinds[index]\n",
        "        made = (self.hidden[index] @ self.mixed).sin()\n"
        "        return torch.cat([made[:12], 0.6 * torch.randn(12)]), self.kinds[index]\n",
    ),
)
