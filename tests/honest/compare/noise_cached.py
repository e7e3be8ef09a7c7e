"""The shapes are in memory."""

from variation import train

train(
    "noise",
    (
        "        time.sleep(0.002)\n        return",
        "        return",
    ),
)
