"""FullyShardedDataParallel: each rank keeps its share of one flat parameter, and of the optimizer's state for it."""

from variation import train_with

train_with(
    (
        "from torch.nn.parallel import DistributedDataParallel",
        "from torch.distributed.fsdp import FullyShardedDataParallel",
    ),
    (
        "model = DistributedDataParallel(resnet18(num_classes=len(BREEDS)).to(device))",
        "inner = resnet18(num_classes=len(BREEDS)).to(device)\n"
        "    for parameter in inner.parameters():\n"
        "        distributed.broadcast(parameter.data, 0)\n"
        "    model = FullyShardedDataParallel(inner, device_id=device)",
    ),
)
