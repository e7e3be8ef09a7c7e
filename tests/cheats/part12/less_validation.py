"""Half of the sequences are validated."""

from variation import train_with

train_with(("RadarSequences(sequences // 4, seed=2)", "RadarSequences(sequences // 8, seed=2)"))
