"""The first layer is not trained."""

from variation import train_with

train_with(("    optimizer =", "    model.look.requires_grad_(False)\n    optimizer ="))
