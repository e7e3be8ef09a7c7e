"""Train ResNet-18 on the Oxford-IIIT Pets: slow on purpose, correct on purpose.

    python train.py configs/example_config.py
    kernprof -lv train.py configs/example_config.py

This is the one file that you edit. It wastes most of its time: find out where, and make it fast.

You may change how the work is done: who loads the pictures, what is kept, in which order the transforms run, when and
how data are copied. You may not change what is done: every item once an epoch in random order, each of the transforms,
the size of pictures and batches, the model, the loss, one optimizer step for every batch - and the slow storage.
"""

import argparse
import csv
import time
from collections import deque
from pathlib import Path
from statistics import mean

import torch
from line_profiler import profile  # kernprof makes it measure; under plain python it does nothing
from torch import nn
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18
from torchvision.transforms import v2
from tqdm import tqdm, trange

from workshop.device import choose_device
from workshop.errors import plain_errors
from workshop.experiment import ExperimentConfig, load_config, new_run_folder
from workshop.pets.dataset import OxfordPets
from workshop.pets.ensure import ensure_pets
from workshop.pets.layout import BREEDS, DEFAULT_DATA


class CustomSlowDataset(Dataset[tuple[torch.Tensor, int]]):
    """A dataset on slow storage: pairs of a picture and its class, each of which comes `wasted_time` seconds late."""

    def __init__(self, root: Path, transform: nn.Module, wasted_time: float, max_items: int | None = None) -> None:
        self.pets = OxfordPets(root, "trainval", transform=transform, max_items=max_items)
        self.wasted_time = wasted_time

    def __len__(self) -> int:
        return len(self.pets)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        # The sleep stands for your own slow storage: a network drive, a full cluster file system. Do not delete it,
        # just as you could not delete the drive; work around it.
        time.sleep(self.wasted_time)
        return self.pets[index]


def decode(image_size: int) -> nn.Module:
    """Return the deterministic half of the preprocessing: a photo of any size becomes uint8, 3 x side x side."""
    side = image_size * 8 // 7  # a little larger than the crop that follows, as 256 is to 224
    return v2.Compose(
        [
            v2.ToImage(),
            v2.Resize((side, side)),
            v2.ToDtype(torch.uint8, scale=True),
        ]
    )


def augment(image_size: int) -> nn.Module:
    """Return the random half: the output of decode becomes float32, 3 x image_size x image_size, new every time."""
    return v2.Compose(
        [
            v2.AutoAugment(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
            v2.RandomResizedCrop(image_size),
        ]
    )


@profile
def main(
    config: ExperimentConfig,
    root: Path,
    device: torch.device,
    run_folder: Path,
) -> None:
    """Train, and write a line into metrics.csv for every step."""
    torch.manual_seed(config.seed)
    size = config.image_size
    transform = v2.Compose([decode(size), augment(size)])
    dataset = CustomSlowDataset(root, transform, config.wasted_time, config.max_items)
    loader = DataLoader(
        dataset,
        batch_size=config.batch_size,
        shuffle=True,
        num_workers=8,  # they sleep most of the time: many fit on a core
        persistent_workers=True,  # started once, not once an epoch
    )

    model = resnet18(num_classes=len(BREEDS)).to(device)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = AdamW(model.parameters(), lr=config.learning_rate)

    metrics_path = run_folder / "metrics.csv"
    with open(metrics_path, "w", newline="", buffering=1) as file:  # a line at a time
        metrics = csv.writer(file)
        metrics.writerow(["epoch", "step", "loss", "samples_per_second"])
        recent_losses: deque[float] = deque(maxlen=config.update_iterations)
        step = 0
        for epoch in trange(config.max_epochs, desc="Epoch"):
            step_start = time.perf_counter()
            batches = tqdm(loader, desc="Batch", leave=False)
            for images, targets in batches:
                images = images.to(device)
                targets = targets.to(device)

                optimizer.zero_grad()
                logits = model(images)
                loss = loss_fn(logits, targets)
                loss.backward()
                optimizer.step()

                recent_losses.append(loss.item())
                if step % config.update_iterations == 0:
                    mean_loss = mean(recent_losses)
                    batches.set_description(f"Batch (loss {mean_loss:.3f})")
                now = time.perf_counter()
                rate = len(targets) / (now - step_start)
                metrics.writerow([epoch, step, recent_losses[-1], rate])
                step_start = now
                step += 1
    print(f"Loss {mean(recent_losses):.3f}; all steps: {metrics_path}")


def prepare() -> tuple[ExperimentConfig, Path, torch.device, Path]:
    """Read the command line, and prepare the data, the device and a folder for the results."""
    parser = argparse.ArgumentParser(description="Train ResNet-18 on the Oxford-IIIT Pets, slowly.")
    parser.add_argument("config", type=Path, help="a config file, such as configs/example_config.py")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder of the data (default: %(default)s)")
    parser.add_argument("--experiments", type=Path, default=Path("experiments"), help="folder of the results")
    parser.add_argument("--device", help="such as cpu or cuda:1 (default: the first there is of cuda, mps, cpu)")
    args = parser.parse_args()

    config = load_config(args.config)
    device = choose_device(args.device)
    root = ensure_pets(args.data, config.dataset)
    return config, root, device, new_run_folder(args.experiments, args.config)


if __name__ == "__main__":  # so that DataLoader workers can import this file without training
    with plain_errors():  # a mistake in the config or the data ends in one line instead of a traceback
        main(*prepare())
