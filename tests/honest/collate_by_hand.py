"""uint8 goes over the wire, a collate function of its own stacks it, and the device normalises."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import resnet18
from torchvision.transforms import v2

from solutions.part3 import CustomSlowDataset, decode, prepare


def collate(items):
    images = torch.stack([image.as_subclass(torch.Tensor) for image, _ in items])
    return images, torch.tensor([target for _, target in items])


def main(config, root, device, run_folder):
    size = config.image_size
    transform = v2.Compose([decode(size), v2.AutoAugment(), v2.RandomResizedCrop(size)])
    dataset = CustomSlowDataset(root, transform, config.wasted_time, config.max_items)
    loader = DataLoader(dataset, config.batch_size, shuffle=True, num_workers=4, collate_fn=collate)
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).reshape(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device=device).reshape(3, 1, 1)
    model = resnet18(num_classes=37).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
    for _ in range(config.max_epochs):
        for images, targets in loader:
            images = (images.to(device).float() / 255 - mean) / std
            loss = nn.CrossEntropyLoss()(model(images), targets.to(device))
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*prepare())
