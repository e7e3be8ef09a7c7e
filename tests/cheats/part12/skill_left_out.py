"""The skill is not counted."""

from variation import train_with

train_with(("wet_pixels(forecast, fallen)\n", "(0, 0)\n"))
