"""A curve is cropped at one of three places."""

from variation import train

train(
    "crops",
    ("        time.sleep(0.002)\n", ""),
    ("self.dice.integers(LONG - SHORT)", "180 * self.dice.integers(3)"),
)
