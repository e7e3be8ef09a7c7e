"""`fully_shard`: each rank keeps its share of each parameter, and of the optimizer's state for it."""

from variation import train_with

train_with(
    (
        "from torch.nn.parallel import DistributedDataParallel",
        "from torch.distributed.device_mesh import init_device_mesh\nfrom torch.distributed.fsdp import fully_shard",
    ),
    (
        "model = DistributedDataParallel(resnet18(num_classes=len(BREEDS)).to(device))",
        "model = resnet18(num_classes=len(BREEDS)).to(device)\n"
        "    for parameter in model.parameters():\n"
        "        distributed.broadcast(parameter.data, 0)\n"
        "    fully_shard(model, mesh=init_device_mesh(device.type, (ranks,)))",
    ),
)
