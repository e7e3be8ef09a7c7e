"""Runs somebody's training script, watches what work it does, and judges whether it became faster."""
