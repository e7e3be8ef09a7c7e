"""Each rank loads as many items at a time as one process would."""

from variation import train_with

train_with(("config.batch_size // ranks,", "config.batch_size,"))
