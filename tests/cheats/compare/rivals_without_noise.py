"""The discriminator gets smooth curves."""

from variation import train

train(
    "rivals",
    ("        time.sleep(0.001)\n", ""),
    ("        self.curves += 0.2 * torch.randn(240, 24, generator=dice)\n", ""),
)
