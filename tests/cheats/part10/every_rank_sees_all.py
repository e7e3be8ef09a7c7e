"""No sampler: each rank goes through all items."""

from variation import train_with

train_with(("sampler=sampler,", "shuffle=True,"))
