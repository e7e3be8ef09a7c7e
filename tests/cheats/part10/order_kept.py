"""The sampler is never told of a new epoch."""

from variation import train_with

train_with(("sampler.set_epoch(epoch)", "sampler.set_epoch(0)"))
