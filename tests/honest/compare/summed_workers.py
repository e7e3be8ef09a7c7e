"""Workers load the rows into pinned memory."""

from variation import train

train(
    "summed",
    (
        "DataLoader(Rows(), 8, shuffle=True)",
        "DataLoader(Rows(), 8, shuffle=True, num_workers=2, persistent_workers=True, pin_memory=True)",
    ),
)
