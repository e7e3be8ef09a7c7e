"""Half of the model is not trained."""

from variation import train_with

train_with(
    ("    loss_fn =", "    model.layer1.requires_grad_(False), model.layer2.requires_grad_(False)\n    loss_fn =")
)
