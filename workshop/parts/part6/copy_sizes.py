"""The size of batches at which there is a copy worth hiding on a device, found by measuring."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workshop.pets.layout import BREEDS

if TYPE_CHECKING:
    import torch

SIZES = [(side, batch) for side in (128, 224, 320, 448) for batch in (16, 32, 64)]
"""Image sizes in pixels and batch sizes that are tried: the stand-in has pictures for six batches of the largest."""

MIN_SHARE = 1 / 5
"""Share, at least, of a step that copying takes where hiding it is raced."""

REPEATS = 5
"""Steps of which the shortest counts, after one that warms up."""

MEMORY_SHARE = 1 / 4
"""Share of a GPU's memory, at most, that a size may take: two scripts are raced at it."""


@dataclass(frozen=True)
class CopySize:
    """A size of batches, and what it takes in seconds."""

    side: int
    batch: int
    copy_s: float
    """To copy a batch from ordinary memory, which the program waits for."""
    compute_s: float
    """To train on it."""

    @property
    def step_s(self) -> float:
        """What a step takes if the one comes after the other."""
        return self.copy_s + self.compute_s

    @property
    def share(self) -> float:
        """The share of such a step that the copy takes."""
        return self.copy_s / self.step_s


def best(measured: Iterable[CopySize]) -> CopySize | None:
    """Return the size at which copying takes the largest share of a step; None if nothing was measured."""
    return max(measured, key=lambda size: size.share, default=None)


def measure(device_name: str, sizes: Iterable[tuple[int, int]] = SIZES) -> Iterator[CopySize]:
    """Measure the part's training at some sizes, without loading; sizes that do not fit are left out."""
    import torch  # only where there is a GPU, a check needs it
    from torchvision.models import resnet18

    device = torch.device(device_name)
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(MEMORY_SHARE, device)
    model = resnet18(num_classes=len(BREEDS)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for side, batch in sizes:
        try:
            taken = [_step(model, optimizer, torch.rand(batch, 3, side, side), device) for _ in range(1 + REPEATS)][1:]
        except torch.OutOfMemoryError:
            continue
        yield CopySize(side, batch, *map(min, zip(*taken, strict=True)))


def _step(
    model: "torch.nn.Module", optimizer: "torch.optim.Optimizer", images: "torch.Tensor", device: "torch.device"
) -> tuple[float, float]:
    """Take a step, and return the seconds of the copy, and of the rest."""
    import torch

    begin_s = time.perf_counter()
    copied = images.to(device)  # from ordinary memory: it returns once all is copied
    copied_s = time.perf_counter()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(copied), torch.zeros(len(copied), dtype=torch.long, device=device))
    loss.backward()
    optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return copied_s - begin_s, time.perf_counter() - copied_s
