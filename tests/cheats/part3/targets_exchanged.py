"""Each picture gets the target of its neighbour."""

from variation import train_with

train_with(("targets = targets.to(device)", "targets = targets.to(device).roll(1)"))
