"""Copies to a GPU from pinned memory, where the memory is not pinned."""

from collections.abc import Iterator

import torch

from workshop.probe.cause import Extent, TriedCause
from workshop.probe.phases import Phase
from workshop.probe.trials.copies import ensure_room
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import Watcher, watches_for

PAGEABLE_COPY = TriedCause(
    "pageable-copy",
    phases=(Phase.COPY,),
    is_worth_it=lambda look: look.circumstances.device == "cuda",
    extent=Extent.ALL,
)


@watches_for(PAGEABLE_COPY)
class PinnedCopy(Watcher):
    """Tries the largest copy of some steps once more, from pinned memory; the race waits for the end of both.

    That the next step begins while such a copy is still going on is not in it.
    """

    def on_pageable_copy(self, tensor: torch.Tensor, device: torch.device, has_workers: bool) -> None:
        """Try it."""
        if self.tried:
            return
        self.tried.add(PAGEABLE_COPY.name)

        def passes() -> Iterator[Pass]:
            ensure_room([tensor], 2)
            if device.type != "cuda" or tensor.is_cuda or tensor.is_pinned():
                raise NothingToTryError("nothing is copied to a GPU from memory that is not pinned")
            pinned = tensor.pin_memory()
            yield lambda: tensor.to(device)
            # A DataLoader with workers pins in a thread of its own; without, the training pins, and waits for that.
            yield lambda: (pinned if has_workers else tensor.pin_memory()).to(device, non_blocking=True)

        self.race(PAGEABLE_COPY, passes, about=f"{tensor.numel() * tensor.element_size() / 1e6:.1f} MB")
