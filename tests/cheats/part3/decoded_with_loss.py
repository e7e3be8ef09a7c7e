"""Decoded photos are kept as JPEGs of low quality."""

from variation import train_with

train_with(("v2.ToDtype(torch.uint8, scale=True),", "v2.ToDtype(torch.uint8, scale=True), v2.JPEG(5),"))
