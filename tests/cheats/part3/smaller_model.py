"""ResNet-10 instead of ResNet-18."""

from variation import train_with

train_with(
    ("from torchvision.models import resnet18", "from torchvision.models.resnet import BasicBlock, ResNet"),
    ("resnet18(num_classes", "ResNet(BasicBlock, [1, 1, 1, 1], num_classes"),
)
