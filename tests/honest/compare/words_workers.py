"""Workers take the windows from the text."""

from variation import train

train(
    "words",
    (
        "DataLoader(windows, 8, shuffle=True)",
        "DataLoader(windows, 8, shuffle=True, num_workers=2)",
    ),
)
