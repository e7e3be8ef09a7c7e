"""Draws items from the dataset of the script that runs here, as a DataLoader's worker would, and notes nothing else.

A forked worker does it: what the items change, such as a cache or the state of a random generator, stays as it was in
this process. In the worker, no time is slept, and no events are written.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from workshop.probe import event_file, opened_files
from workshop.probe.event_file import EventFile
from workshop.probe.events import ForwardPass, ItemsDrawn, SamplerDrawn
from workshop.probe.internals import tree_leaves
from workshop.probe.loader_epochs import copied_sampler, own_generator
from workshop.probe.messages import DrawItems, DrawnItems
from workshop.probe.noted_step import NotedPass
from workshop.probe.open_handles import own_handles, why_not_forked
from workshop.probe.random_states import random_states, set_random_states
from workshop.probe.signature import encode, signature, values_of_items

TIMEOUT_S = 20.0
"""Seconds, at most, for a batch: a worker that needs longer hangs, as after a fork in the midst of something."""


MAX_BATCHES, MAX_SAMPLER_EPOCHS, MAX_SAMPLED = 10_000, 20, 100_000
"""What a sampler draws beside the training: batches of an epoch, at most; epochs, and about so many indexes."""


class LoadedBatch:
    """Which of the tensors in a DataLoader's batch enters the model, and which holds the targets.

    Args:
        loader: the DataLoader; None if none was seen.
        batch: the batch that it has handed out last.
        forwards: what has entered the model in the step that was taken with it, perhaps.
    """

    def __init__(self, loader: DataLoader[Any] | None, batch: Any, forwards: Sequence[NotedPass]) -> None:
        self.loader = loader
        self.places: tuple[int, int] | None = None
        leaves = _tensors(batch)
        for noted in reversed(forwards):
            forward = noted.fetch()
            self._shape, self._dtype = forward.shape[1:], getattr(torch, forward.dtype)
            inputs = [place for place, leaf in enumerate(leaves) if _is_input(leaf, forward)]
            targets = [place for place, leaf in enumerate(leaves) if _is_target(leaf, noted.targets, forward)]
            if inputs and targets:
                assert noted.targets is not None
                self.places, self._of_target = (inputs[0], targets[0]), noted.targets.shape[1:]
                return

    def as_entered(self, batch: Any) -> ForwardPass:
        """Return what would be noted if the items of another batch entered the model."""
        assert self.places
        leaves = _tensors(batch)
        inputs, targets = (leaves[place] for place in self.places)
        if math.prod(inputs.shape[1:]) == math.prod(self._shape):
            inputs = inputs.reshape(len(inputs), *self._shape)
        entered = NotedPass.of(inputs.to(self._dtype))
        entered.noted |= {"device": "cpu", "autocast": False}
        if math.prod(targets.shape[1:]) % max(math.prod(self._of_target), 1) == 0:
            targets = targets.reshape(-1, *self._of_target)  # a loss may take those of all words one after the other
        entered.targets = targets
        return entered.fetch()


def draw_items(loaded: LoadedBatch, message: DrawItems, events: EventFile) -> DrawnItems:
    """Draw each item of an epoch once, then some of them again, as long as there is time, and write down each batch."""
    loader = loaded.loader
    if loader is None:
        return DrawnItems(error="no DataLoader was seen")
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return DrawnItems(error="its DataLoader has no items that could be asked for")
    if loaded.places is None:
        return DrawnItems(error="what is loaded is not what enters the model")
    if why_not := why_not_forked(loader):
        return DrawnItems(error=why_not)
    give_up, count = monotonic() + message.seconds, 0
    try:
        states = random_states()
        try:
            batches = _batches_of(loader)
            counts = _counts_of(loader)
        finally:
            set_random_states(states)
        events.write(SamplerDrawn, indexes=tuple(counts), counts=tuple(counts.values()))
        again = random.Random(0).sample(batches, min(len(batches), message.batches_again))
        for number in range(message.times):
            some = again if number else batches
            asked = [[index for _, index in each] for each in some]
            for of_batch, batch in zip(some, load_apart(loader, asked), strict=True):
                numbers = tuple(place for place, _ in of_batch)
                drawn = loaded.as_entered(batch)
                if drawn.shape[0] != len(numbers):  # as of graphs, whose nodes enter the model one after the other
                    return DrawnItems(count, "what enters the model is not divided into items")
                is_all = len(batches) * len(numbers) <= message.items
                events.write(ItemsDrawn, numbers=numbers, time=number, drawn=drawn, of=sum(map(len, batches)))
                count += len(numbers)
                if monotonic() > give_up or (number == 0 and not is_all and count >= message.items):
                    break
    except Exception as error:  # of the script's dataset, or of a worker that hangs
        return DrawnItems(count, f"{type(error).__name__}: {error}")
    return DrawnItems(count)


def _tensors(batch: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.ndim]


def _is_input(leaf: torch.Tensor, forward: ForwardPass) -> bool:
    """Return whether a tensor of the batch has entered the model, as it is or in another shape."""
    if len(leaf) != forward.shape[0] or leaf.numel() != math.prod(forward.shape):
        return False
    return encode(signature(leaf.reshape(forward.shape))) == forward.pictures


def _is_target(leaf: torch.Tensor, targets: torch.Tensor | None, forward: ForwardPass) -> bool:
    """Return whether a tensor of the batch is what the loss function got, as it is or in another shape."""
    if targets is None or leaf.numel() != targets.numel():
        return False
    return values_of_items(leaf.reshape(targets.shape), forward.shape[0]) == forward.targets


Numbered = list[tuple[int, Any]]
"""Items of a batch: the number of each in the epoch, and the index by which the dataset knows it."""


def _batches_of(loader: DataLoader[Any]) -> list[Numbered]:
    """Return the batches of an epoch, as a copy of the loader's sampler draws them."""
    sampler = copied_sampler(loader.batch_sampler, loader.dataset)
    numbers = itertools.count()
    return [[(next(numbers), index) for index in batch] for batch in itertools.islice(sampler or (), MAX_BATCHES)]


def _counts_of(loader: DataLoader[Any]) -> Counter[int]:
    """Return how often each index comes in some epochs; empty if all come equally often, or are no numbers."""
    sampler = copied_sampler(loader.batch_sampler, loader.dataset)
    counts: Counter[int] = Counter()
    for _ in range(MAX_SAMPLER_EPOCHS):
        counts.update(int(index) for batch in itertools.islice(sampler, MAX_BATCHES) for index in batch)
        if counts.total() > MAX_SAMPLED:
            break
    return counts if len(set(counts.values())) > 1 else Counter()


def load_apart(loader: DataLoader[Any], batches: Sequence[list[Any]]) -> Iterator[Any]:
    """Yield the batches of these indexes as a DataLoader would make them, in a forked worker that nobody notices."""
    worker = DataLoader(
        loader.dataset,
        batch_sampler=batches,
        collate_fn=loader.collate_fn,
        num_workers=1,
        worker_init_fn=_begin_quietly(loader.dataset, loader.worker_init_fn),
        multiprocessing_context="fork",
        timeout=TIMEOUT_S,
        generator=own_generator(),
    )
    yield from worker


def _begin_quietly(dataset: Any, also: Callable[[int], None] | None) -> Callable[[int], None]:
    def begin(worker: int) -> None:
        event_file.mute()
        opened_files.skip_waits()
        own_handles(dataset)
        if also:
            also(worker)

    return begin
