"""Batches have eight sequences."""

from variation import train_with

train_with(("BATCH_SIZE = 16", "BATCH_SIZE = 8"))
