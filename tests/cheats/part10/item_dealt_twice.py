"""torch's own sampler, which deals an item twice so that all ranks have as many."""

from variation import train_with

train_with(("EachItemOnce(dataset, seed=config.seed)", "DistributedSampler(dataset, seed=config.seed)"))
