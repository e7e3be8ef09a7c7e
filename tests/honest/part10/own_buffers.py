"""Each rank keeps running means of its own share; those of rank 0 are not sent to the others."""

from variation import train_with

train_with(
    (
        "DistributedDataParallel(resnet18(num_classes=len(BREEDS)).to(device))",
        "DistributedDataParallel(resnet18(num_classes=len(BREEDS)).to(device), broadcast_buffers=False)",
    ),
)
