"""The model is half as wide."""

from variation import train_with

train_with(("width: int = 8", "width: int = 4"))
