"""Batches of twice the size need half the steps."""

from variation import train_with

train_with(("batch_size=config.batch_size", "batch_size=2 * config.batch_size"))
