"""Only rank 0 keeps running means; the other ranks neither update their own nor get them."""

from variation import train_with

train_with(
    (
        "model = DistributedDataParallel(resnet18(num_classes=len(BREEDS)).to(device))",
        "inner = resnet18(num_classes=len(BREEDS)).to(device)\n"
        "    for module in inner.modules():\n"
        "        if rank and isinstance(module, nn.BatchNorm2d):\n"
        "            module.momentum = 0.0\n"
        "    model = DistributedDataParallel(inner, broadcast_buffers=False)",
    ),
)
