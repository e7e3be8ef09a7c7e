"""No DistributedDataParallel: each rank trains a model of its own on its share."""

from variation import train_with

train_with(
    ("DistributedDataParallel(resnet18(num_classes=len(BREEDS)).to(device))", "resnet18(num_classes=37)"),
    ("config.seed + rank)", "config.seed)"),
)
