"""Judges two training scripts: whether one does the same work as the other, and whether it is faster."""
