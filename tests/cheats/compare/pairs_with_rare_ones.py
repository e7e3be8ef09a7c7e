"""All rivals are drawn as often."""

from variation import train

train(
    "pairs",
    ("        time.sleep(0.001)\n", ""),
    ("self.often.index_fill", "torch.ones(THINGS).index_fill"),
)
