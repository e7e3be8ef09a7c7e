"""A training step as it is noted for the judge: what entered the model, and what the parameters were before and after.

Signatures, inputs and targets stay on their device until the epoch is over; then the step is written as an event.
"""

import functools
import random
from dataclasses import dataclass, field, replace
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch

from workshop.probe.event_file import EventFile
from workshop.probe.events import (
    SKETCH,
    AskedFor,
    ForwardPass,
    InputRows,
    ParameterGroup,
    Signatures,
    StepTaken,
    WholeItem,
)
from workshop.probe.signature import encode, signature, values_of_items
from workshop.probe.spots import Spots, SpotValues, moved

MAX_SKETCHED = 1024
"""Of an item with more values than this, that many go into its sketch."""

MAX_VALUES = 128
"""Of an item with more values than this, that many are noted: pairs of neighbours, evenly spaced."""

MAX_NOTED = 4096
"""The number of values that are noted of a batch: if it has more, they are those of some items, chosen by chance."""

HASH = torch.tensor(-25033, dtype=torch.int16).numpy()
"""A whole number is multiplied by this, in 16 bits, so that tokens of near numbers differ much; 0 stays 0."""

COPIED = 2**16
"""Of a batch of up to this many bytes a copy is kept, which takes less time than to note what is in it."""

MAX_WITH_ZEROS = 2**24
"""A sparse tensor with more values than this, zeros included, is not looked at."""

_dice = random.SystemRandom()  # the script's own draws stay, and it cannot know which items are noted


class NotedInputs:
    """What is noted of a batch as it enters the model, still on its device."""

    def __init__(self, batch: torch.Tensor) -> None:
        self._copy: torch.Tensor | None = None
        batch = with_zeros(batch)
        if batch.nbytes <= COPIED:
            self._copy = batch.detach().as_subclass(torch.Tensor).clone()
        else:
            self._notes = signature(batch), rows_of(batch)

    def fetch(self) -> tuple[Signatures, InputRows]:
        """Return the notes as an event tells them."""
        pictures, rows = self._notes if self._copy is None else (signature(self._copy), rows_of(self._copy))
        return encode(pictures), rows.fetch()


def with_zeros(batch: torch.Tensor) -> torch.Tensor:
    """Return a sparse batch as an ordinary one.

    Raises:
        ValueError: it would be too large, or consists of tensors of different shapes.
    """
    if batch.is_nested:
        raise ValueError("a nested tensor enters the model, whose items cannot be told apart")
    if batch.layout == torch.strided:
        return batch
    if batch.numel() > MAX_WITH_ZEROS:
        raise ValueError(f"a sparse tensor of {batch.numel():,} values enters the model, too many to look at")
    return batch.detach().to_dense()


@dataclass
class PendingRows:
    """What is noted of a batch, still on its device."""

    rows: tuple[int, ...]
    sketches: Any
    values: Any

    def fetch(self) -> InputRows:
        """Return it as an event tells it."""
        sketches, values = (
            each.cpu().numpy() if isinstance(each, torch.Tensor) else each for each in (self.sketches, self.values)
        )
        return InputRows(self.rows, sketches.tobytes(), values.shape[1], values.tobytes())


@dataclass
class PendingItem:
    """A whole item of a batch, still on its device."""

    row: int
    values: torch.Tensor

    def fetch(self) -> WholeItem:
        """Return it as an event tells it."""
        return WholeItem(self.row, self.values.cpu().numpy().astype("complex64").tobytes())


def item_of(batch: torch.Tensor) -> PendingItem:
    """Copy one item of a batch, the same one in each batch of this size; the script cannot know which."""
    row = _row(len(batch))
    return PendingItem(row, batch[row].detach().resolve_conj().clone())


@functools.cache
def _row(items: int) -> int:
    return _dice.randrange(items)


def rows_of(batch: torch.Tensor) -> PendingRows:
    """Take the notes of each item of a batch; nothing is waited for on a device.

    A sketch has the sums of all values of an item, each with a random sign. The mean square difference of two sketches
    is about the sum of squares by which their items differ. Zeros at the end, as of padded sentences, add nothing.
    """
    plain = batch.detach().as_subclass(torch.Tensor)
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    items = plain.reshape(len(plain), -1)
    count, device, is_whole = items.shape[1], plain.device.type, not plain.is_floating_point()
    rows = _noted_rows(len(items), 0 if batch.ndim >= 4 else min(count, MAX_VALUES))
    spots, signs = _sketched(count, device)
    if device == "cpu" and plain.dtype != torch.bfloat16:
        array, some = items.numpy(), items.numpy()
        some = some if spots is None else some.take(spots.numpy(), 1)
        some = (
            (some.astype("int16") * HASH).astype("float32") / 2**15 if is_whole else some.astype("float32", copy=False)
        )
        values = array if len(rows) == len(array) else array.take(rows, 0)
        return PendingRows(
            rows, some.dot(signs.numpy()), values.take(_noted(count, device).numpy(), 1).astype("float32")
        )
    some = items if spots is None else items[:, spots]
    some = (some.short() * int(HASH)).float() / 2**15 if is_whole else some.float()
    values = (items if len(rows) == len(items) else items[list(rows)])[:, _noted(count, device)]
    return PendingRows(rows, some @ signs, values.float())


def _noted_rows(items: int, width: int) -> tuple[int, ...]:
    """Choose the items of which so many values are noted; of pictures, which have signatures, none."""
    count = min(items, MAX_NOTED // width) if width else 0
    return tuple(range(items) if count == items else sorted(_dice.sample(range(items), count)))


@functools.cache
def _signs() -> torch.Tensor:
    dice = torch.Generator().manual_seed(8)
    return torch.randint(2, (MAX_SKETCHED, SKETCH), generator=dice).float() * 2 - 1


@functools.lru_cache(maxsize=256)
def _sketched(count: int, device: str) -> tuple[torch.Tensor | None, torch.Tensor]:
    """The values of an item that go into its sketch, None for all, and the sign of each in each sum."""
    if count <= MAX_SKETCHED:
        return None, _signs()[:count].to(device)
    dice = torch.Generator().manual_seed(count)
    return torch.randperm(count, generator=dice)[:MAX_SKETCHED].sort().values.to(device), _signs().to(device)


@functools.lru_cache(maxsize=256)
def _noted(count: int, device: str) -> torch.Tensor:
    """The values of an item that are noted."""
    if count <= MAX_VALUES:
        return torch.arange(count, device=device)
    pairs = torch.arange(MAX_VALUES // 2) * (count - 1) // (MAX_VALUES // 2)
    return torch.stack([pairs, pairs + 1], 1).flatten().to(device)


MAX_PARAMETERS = 64
"""The number of values of the model's smallest parameter that are noted."""


@dataclass
class NotedPass:
    """A forward pass."""

    noted: dict[str, Any]  # the other fields of a `ForwardPass`
    inputs: NotedInputs
    targets: torch.Tensor | None = None
    item: PendingItem | None = None

    @classmethod
    def of(cls, batch: torch.Tensor) -> "NotedPass":
        """Note at once what enters a model now."""
        device = batch.device.type
        noted = {
            "t": monotonic(),
            "shape": tuple(batch.shape),
            "dtype": str(batch.dtype).removeprefix("torch."),
            "device": device,
            "autocast": torch.is_autocast_enabled(device),
        }
        return cls(noted, NotedInputs(batch))

    def fetch(self) -> ForwardPass:
        """Return the pass as an event tells it."""
        targets = None if self.targets is None else values_of_items(self.targets, self.noted["shape"][0])
        pictures, inputs = self.inputs.fetch()
        item = self.item.fetch() if self.item else None
        return ForwardPass(**self.noted, pictures=pictures, targets=targets, inputs=inputs, item=item)


@dataclass
class NotedStep:
    """A step, and the parameters before and after it; None as long as no optimizer has stepped."""

    forwards: list[NotedPass] = field(default_factory=list)
    other_inputs: list[NotedPass] = field(default_factory=list)  # see `StepTaken`
    asked: list[AskedFor] = field(default_factory=list)
    backwards: int = 0
    without_gradients: int = 0  # items that entered any model so, or to validate
    parameter: torch.Tensor | None = None
    before: SpotValues | None = None
    after: SpotValues | None = None
    buffers_before: SpotValues | None = None  # as the first input enters the model
    buffers_after: SpotValues | None = None
    groups: tuple[ParameterGroup, ...] = ()  # of all optimizers
    is_skipped: bool = False  # by a gradient scaler
    retaken: int = 0  # the number of recorded steps that the loop has taken before


class StepWriter:
    """Writes steps as events, one after the other."""

    def __init__(self, events: EventFile, run_index: int) -> None:
        self.events, self._run_index = events, run_index
        self._last = NotedStep()

    def write(self, step: NotedStep, spots: Spots) -> None:
        """Write a step, unless it has not begun; what it has in common with the last one is left out."""
        if not step.forwards and step.parameter is None:
            return
        some = None if step.parameter is None else tuple(step.parameter.flatten()[:MAX_PARAMETERS].tolist())
        self.events.write(
            StepTaken,
            forwards=tuple(each.fetch() for each in step.forwards),
            other_inputs=tuple(each.fetch() for each in step.other_inputs),
            asked=tuple(step.asked),
            backwards=step.backwards,
            without_gradients=step.without_gradients,
            parameter=some,
            still=frozenset(spots.still(step.before, step.after)),
            touched=frozenset(moved(self._last.after, step.before)),
            touched_buffers=frozenset(moved(self._last.buffers_after, step.buffers_before)),
            groups=() if step.groups == self._last.groups else step.groups,
            run_index=self._run_index,
            is_skipped=step.is_skipped,
            retaken=step.retaken,
        )
        self._last = replace(step, forwards=[], other_inputs=[], asked=[])
