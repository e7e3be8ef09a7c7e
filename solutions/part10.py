"""Train ResNet-18 on the Oxford-IIIT Pets, on many ranks.

    torchrun --nproc_per_node=2 train.py configs/example_config.py

This is the one file that you edit. It wastes most of its time: find out where, and make it fast.

You may change how the work is done: who loads the pictures, what is kept, in which order the transforms run, when and
how data are copied. You may not change what is done: every item once an epoch in random order, each of the transforms,
the size of pictures and batches, the model, the loss, one optimizer step for every batch - and the slow storage.
"""

import argparse
import csv
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import torch
from line_profiler import profile  # kernprof makes it measure; under plain python it does nothing
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision.models import resnet18
from torchvision.transforms import v2
from tqdm import tqdm, trange

from solutions.cached_dataset import CachedDataset, fingerprint
from workshop.device import choose_device
from workshop.errors import ConfigError, WorkshopError, plain_errors
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


class EachItemOnce(DistributedSampler[int]):
    """A sampler that deals out the items of an epoch like cards, one to each rank in turn.

    Its base class deals some items twice, so that all ranks have the same number of them, or drops some.
    """

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(len(self.dataset), generator=torch.Generator().manual_seed(self.seed + self.epoch))
        return iter(order[self.rank :: self.num_replicas].tolist())

    def __len__(self) -> int:
        return len(range(self.rank, len(self.dataset), self.num_replicas))


@profile
def main(
    config: ExperimentConfig,
    root: Path,
    device: torch.device,
    metrics_path: Path,
) -> None:
    """Train, and write a line into metrics.csv for every step."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(config.seed + rank)  # each rank augments differently; DDP gives all the model of rank 0
    size = config.image_size
    slow_dataset = CustomSlowDataset(root, decode(size), config.wasted_time, config.max_items)
    key = fingerprint(decode(size), slow_dataset.pets.files())
    dataset = CachedDataset(slow_dataset, config.cache_dir, key, transform=augment(size))
    check_batches(len(dataset), config.batch_size, ranks)
    sampler = EachItemOnce(dataset, seed=config.seed)
    loader = DataLoader(
        dataset,
        batch_size=config.batch_size // ranks,  # together the ranks train on the batches that one process would have
        sampler=sampler,
        num_workers=4,  # for each rank
        persistent_workers=True,  # started once, not once an epoch
    )

    model = DistributedDataParallel(resnet18(num_classes=len(BREEDS)).to(device))
    loss_fn = nn.CrossEntropyLoss()
    optimizer = AdamW(model.parameters(), lr=config.learning_rate)

    with open(metrics_path, "w", newline="", buffering=1) as file:  # a line at a time
        metrics = csv.writer(file)
        metrics.writerow(["epoch", "step", "loss", "samples_per_second"])
        recent_losses: deque[float] = deque(maxlen=config.update_iterations)
        step = 0
        for epoch in trange(config.max_epochs, desc="Epoch", disable=rank > 0):
            step_start = time.perf_counter()
            sampler.set_epoch(epoch)  # another order
            batches = tqdm(loader, desc="Batch", leave=False, disable=rank > 0)
            for number, (images, targets) in enumerate(batches):
                images = images.to(device)
                targets = targets.to(device)

                optimizer.zero_grad()
                logits = model(images)
                loss = loss_fn(logits, targets)
                # DDP takes the mean over ranks, not over items; some ranks have one more item of the last batch.
                batch_items = min(config.batch_size, len(dataset) - number * config.batch_size)
                weighted = loss * (len(targets) * ranks / batch_items)
                weighted.backward()
                optimizer.step()

                batch_loss = weighted.detach() / ranks
                distributed.all_reduce(batch_loss)  # the loss of the whole batch, not of this rank's share
                recent_losses.append(batch_loss.item())
                if step % config.update_iterations == 0:
                    mean_loss = mean(recent_losses)
                    batches.set_description(f"Batch (loss {mean_loss:.3f})")
                now = time.perf_counter()
                rate = batch_items / (now - step_start)
                metrics.writerow([epoch, step, recent_losses[-1], rate])
                step_start = now
                step += 1
    if rank == 0:
        print(f"Loss {mean(recent_losses):.3f}; all steps: {metrics_path}")


def check_batches(items: int, batch_size: int, ranks: int) -> None:
    """Check that every rank has an item of every batch, since all ranks step together.

    Raises:
        ConfigError: a rank would have none.
    """
    if batch_size % ranks:
        raise ConfigError(
            f"batch_size {batch_size} cannot be shared out to {ranks} ranks; choose a multiple of {ranks}"
        )
    if 0 < items % batch_size < ranks:
        raise ConfigError(
            f"the last batch of an epoch has {items % batch_size} items for {ranks} ranks; choose another batch_size"
        )


def join_ranks(device: str | None) -> torch.device:
    """Join the processes that torchrun has started, and return the device of this one: a GPU of its own, or the CPU.

    Raises:
        WorkshopError: torchrun did not start this process.
    """
    if "RANK" not in os.environ:
        raise WorkshopError("start this with torchrun: torchrun --nproc_per_node=2 train.py configs/example_config.py")
    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    chosen = choose_device(f"cuda:{os.environ['LOCAL_RANK']}" if name == "cuda" else name)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return chosen


def prepare() -> tuple[ExperimentConfig, Path, torch.device, Path]:
    """Read the command line, and prepare the data, the device and a file for the results."""
    parser = argparse.ArgumentParser(description="Train ResNet-18 on the Oxford-IIIT Pets, slowly.")
    parser.add_argument("config", type=Path, help="a config file, such as configs/example_config.py")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder of the data (default: %(default)s)")
    parser.add_argument("--experiments", type=Path, default=Path("experiments"), help="folder of the results")
    parser.add_argument("--device", help="cpu or cuda (default: cuda, or cpu)")
    args = parser.parse_args()

    config = load_config(args.config)
    device = join_ranks(args.device)
    root = ensure_pets(args.data, config.dataset)
    metrics = (
        new_run_folder(args.experiments, args.config) / "metrics.csv" if distributed.get_rank() == 0 else os.devnull
    )
    return config, root, device, Path(metrics)


if __name__ == "__main__":  # so that DataLoader workers can import this file without training
    with plain_errors():  # a mistake in the config or the data ends in one line instead of a traceback
        main(*prepare())
        distributed.destroy_process_group()
