"""Judges two training scripts: whether the second does the same work as the first, and whether it is faster."""
