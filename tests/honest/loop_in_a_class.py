"""Another order of arguments, other names, the loop in a class, a loss without a module, no `.item()` at each step."""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torchvision.models import resnet18
from torchvision.transforms import v2

from solutions.part3 import CustomSlowDataset, augment, decode, prepare


class Trainer:
    def __init__(self, config, root, device, run_folder):
        transform = v2.Compose([*decode(config.image_size).transforms, *augment(config.image_size).transforms])
        pets = CustomSlowDataset(
            wasted_time=config.wasted_time, max_items=config.max_items, transform=transform, root=root
        )
        self.feed = DataLoader(num_workers=4, shuffle=True, batch_size=config.batch_size, dataset=pets)
        self.device, self.epochs = device, config.max_epochs
        self.network = resnet18(num_classes=37).to(device)
        self.descent = torch.optim.AdamW(lr=config.learning_rate, params=self.network.parameters())

    def learn(self, x, y):
        error = cross_entropy(self.network(x.to(self.device)), y.to(self.device))
        self.descent.zero_grad()
        error.backward()
        self.descent.step()
        return error.detach()

    def run(self):
        for _ in range(self.epochs):
            errors = [self.learn(x, y) for x, y in self.feed]
            print(torch.stack(errors).mean().item())


if __name__ == "__main__":
    Trainer(*prepare()).run()
