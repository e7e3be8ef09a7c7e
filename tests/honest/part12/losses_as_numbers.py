"""The validation makes graphs, and keeps none: it adds numbers."""

from variation import train_with

train_with(
    ("torch.no_grad()", "torch.enable_grad()"),
    ("to(device)), fallen.to(device))\n", "to(device)), fallen.to(device)).item()\n"),
)
