"""Every second batch is trained on twice, instead of the next one."""

from variation import train_with

train_with(
    ("import time", "import time\nfrom itertools import chain, islice"),
    ("in batches:", "in chain.from_iterable((b, b) for b in islice(batches, 0, None, 2)):"),
)
