"""An epoch has half of the sequences."""

from variation import train_with

train_with(("RadarSequences(sequences, seed=1)", "RadarSequences(sequences // 2, seed=1)"))
