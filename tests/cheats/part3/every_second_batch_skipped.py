"""The loop takes every second batch only."""

from variation import train_with

train_with(("in batches:", "in (batch for number, batch in enumerate(batches) if number % 2 == 0):"))
