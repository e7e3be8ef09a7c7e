"""Workers draw the noise."""

from variation import train

train(
    "signals",
    (
        "DataLoader(signals, 6, shuffle=True)",
        "DataLoader(signals, 6, shuffle=True, num_workers=2, persistent_workers=True)",
    ),
)
