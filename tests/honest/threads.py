"""Threads load the items, and no DataLoader is used at all."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torchvision.models import resnet18
from torchvision.transforms import v2

from solutions.part3 import CustomSlowDataset, augment, decode, prepare


def batches_of(dataset, size, pool):
    order = torch.randperm(len(dataset)).tolist()
    items = list(pool.map(dataset.__getitem__, order))
    for start in range(0, len(items), size):
        images, targets = zip(*items[start : start + size], strict=True)
        yield torch.stack([image.as_subclass(torch.Tensor) for image in images]), torch.tensor(targets)


def main(config, root, device, run_folder):
    size = config.image_size
    dataset = CustomSlowDataset(root, v2.Compose([decode(size), augment(size)]), config.wasted_time, config.max_items)
    model = resnet18(num_classes=37).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(config.max_epochs):
            for images, targets in batches_of(dataset, config.batch_size, pool):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images.to(device)), targets.to(device))
                loss.backward()
                optimizer.step()


if __name__ == "__main__":
    main(*prepare())
