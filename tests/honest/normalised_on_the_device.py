"""v2.Normalize works on whole batches, on the device; all the transforms are called one by one."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import resnet18
from torchvision.transforms import v2

from solutions.part3 import CustomSlowDataset, prepare


class OneByOne:
    def __init__(self, size):
        side = size * 8 // 7
        self.resize = v2.Resize((side, side))
        self.augment = v2.AutoAugment()
        self.crop = v2.RandomResizedCrop(size, [0.08, 1.0], interpolation=v2.InterpolationMode.BILINEAR)  # the defaults

    def __call__(self, photo):
        return self.crop(self.augment(self.resize(v2.functional.to_image(photo))))


def main(config, root, device, run_folder):
    dataset = CustomSlowDataset(root, OneByOne(config.image_size), config.wasted_time, config.max_items)
    loader = DataLoader(dataset, config.batch_size, shuffle=True, num_workers=2)
    to_float = v2.ToDtype(torch.float32, scale=True)
    normalise = v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    model = resnet18(num_classes=37).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
    for _ in range(config.max_epochs):
        for images, targets in loader:
            images = normalise(to_float(images.to(device, memory_format=torch.channels_last)))
            loss = nn.CrossEntropyLoss()(model(images), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*prepare())
