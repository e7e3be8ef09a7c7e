"""The loop takes every second batch only."""

from variation import train_with

train_with(
    ("import time", "import time\nfrom itertools import islice"),
    ("for images, targets in batches:", "for images, targets in islice(batches, 0, None, 2):"),
)
