"""Workers draw the curves."""

from variation import train

train(
    "waves",
    (
        "DataLoader(waves, 10, shuffle=True)",
        "DataLoader(waves, 10, shuffle=True, num_workers=2)",
    ),
)
