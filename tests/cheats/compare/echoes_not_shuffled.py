"""The sounds come in the same order in each epoch."""

from variation import train

train(
    "echoes",
    (
        "8, shuffle=True)",
        "8)",
    ),
)
