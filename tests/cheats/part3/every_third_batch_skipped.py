"""A third of the batches is left out, another third each time."""

from variation import train_with

train_with(("in batches:", "in (batch for number, batch in enumerate(batches) if number % 3 != epoch % 3):"))
