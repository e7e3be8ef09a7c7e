"""Batch norm keeps no running means."""

from variation import train_with

train_with(
    (
        "    loss_fn =",
        "    for module in model.modules():\n"
        "        if isinstance(module, nn.BatchNorm2d):\n"
        "            module.momentum = 0.0\n"
        "    loss_fn =",
    )
)
