"""Workers load the rows."""

from variation import train

train(
    "table",
    (
        "DataLoader(rows, 16, shuffle=True)",
        "DataLoader(rows, 16, shuffle=True, num_workers=2, persistent_workers=True)",
    ),
)
