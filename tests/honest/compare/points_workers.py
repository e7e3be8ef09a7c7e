"""Workers turn the clouds."""

from variation import train

train(
    "points",
    ("shuffle=True)", "shuffle=True, num_workers=2)"),
)
