"""The items come in the same order every epoch."""

from variation import train_with

train_with(("shuffle=True", "shuffle=False"))
