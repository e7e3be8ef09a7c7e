"""The last, smaller batch of each epoch is dropped."""

from variation import train_with

train_with(("shuffle=True,", "shuffle=True, drop_last=True,"))
