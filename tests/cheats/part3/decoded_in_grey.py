"""The colours of the photos are dropped."""

from variation import train_with

train_with(("v2.ToImage(),", "v2.ToImage(), v2.Grayscale(3),"))
