"""The work that a script did, read from the events of its processes: which photos, what became of them, which steps.

A picture is followed from its file to the model by its signature, a few of its values, which stays the same as long as
the values of a channel are only scaled and shifted: by `ToDtype`, by `Normalize`, by a move to another process or to
the device. Whatever else changes a picture, a crop or an augmentation, is a transform that reports both ends.
"""

import base64
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workshop.harness.probe import SAMPLES, events_in

Array = NDArray[np.float32]

SAME_PICTURE = 0.05
"""Two signatures of unit variance whose root mean square difference is less belong to one picture. Rounding to uint8
makes 0.01; two crops of a photo differ by 0.1 and more."""

MOST_TRACED = 1000
"""Pictures that are followed back; of more, a sample."""


@dataclass(frozen=True)
class Read:
    """A photo was opened."""

    t: float
    source: tuple[int, int]
    """Process and thread."""
    photo: str
    slept_s: float
    """Seconds that the thread slept since it opened its last photo."""


@dataclass(frozen=True)
class Simple:
    """A transform without others inside: its name, its settings, the picture's height and width before and after."""

    name: str
    settings: dict[str, str]
    before: tuple[int, int]
    after: tuple[int, int]


@dataclass(frozen=True)
class Transformed:
    """A transform was applied, to one picture or a whole batch."""

    t: float
    source: tuple[int, int]
    simple: tuple[Simple, ...]
    before: Array
    """Signatures of shape (pictures, channels * SAMPLES), of unit variance in each channel."""
    after: Array


@dataclass(frozen=True)
class Forward:
    """A batch entered the model."""

    t: float
    shape: tuple[int, ...]
    dtype: str
    device: str
    """"cpu", "cuda", ..."""
    autocast: bool
    values: Array
    """As they are, of shape (pictures, channels * SAMPLES)."""
    targets: tuple[Any, ...] | None


@dataclass(frozen=True)
class Step:
    """The optimizer stepped, after these forward passes; or, if `parameter` is None, it never did."""

    t: float
    forwards: tuple[Forward, ...]
    backwards: int
    parameter: tuple[float, ...] | None
    """Values of the model's smallest parameter after the step."""
    life: int = 0
    """How often the script had been started before."""


@dataclass(frozen=True)
class Model:
    """What is trained, and by what; as it was after the first epoch."""

    parameters: tuple[tuple[int, ...], ...]
    """The shapes."""
    optimizer: str
    settings: dict[str, Any]
    ranks: int = 1
    """Processes that train it together, as torch.distributed has it."""


@dataclass(frozen=True)
class Origin:
    """Where a picture that entered the model comes from."""

    photo: str | None
    """The file; None if it cannot be told."""
    simple: tuple[Simple, ...]
    """The transforms on its way, the latest first."""
    shared_by: int
    """Pictures that one random draw was made for; 1 for a draw each."""
    draws: tuple[tuple[str, int], ...] = ()
    """The random transforms on its way: name, and number of the event among the ledger's transforms."""


@dataclass(frozen=True)
class Traced:
    """A picture that entered the model, with its target and, if it can be told, where it comes from."""

    target: Any
    origin: Origin | None


@dataclass
class Ledger:
    """All that a child did in all its lives."""

    reads: list[Read] = field(default_factory=list)
    transforms: list[Transformed] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    iters: list[float] = field(default_factory=list)
    """When a DataLoader began an epoch."""
    batches: int | None = None
    """That the loader was to hand out which the first step of the optimizer took its batch from."""
    workers: int = 0
    """DataLoader workers asked for."""
    copies: list[tuple[float, Array | None]] = field(default_factory=list)
    """Copies of a batch to the device: when, and the signature of its first picture."""
    model: Model | None = None
    _lives: dict[int, int] = field(default_factory=dict)
    _last_batches: int | None = None

    @classmethod
    def of(cls, folder: Path) -> "Ledger":
        """Read the events in a child's folder."""
        ledger = cls()
        for event in events_in(folder):
            ledger._enter(event)
        ledger._index()
        return ledger

    @classmethod
    def of_ranks(cls, ledgers: Sequence["Ledger"]) -> "Ledger":
        """What several ranks did together, as if one process had done it: their shares of a batch are one batch."""
        whole = cls(iters=ledgers[0].iters, batches=ledgers[0].batches, model=ledgers[0].model)
        whole.workers = sum(ledger.workers for ledger in ledgers)
        for name in ("reads", "transforms"):
            events = [event for ledger in ledgers for event in getattr(ledger, name)]
            setattr(whole, name, sorted(events, key=lambda event: event.t))
        whole.copies = sorted((copy for ledger in ledgers for copy in ledger.copies), key=lambda copy: copy[0])
        for shares in zip_longest(*(ledger.steps for ledger in ledgers)):
            steps = [step for step in shares if step]
            forwards = zip_longest(*(step.forwards for step in steps))
            together = tuple(_together([forward for forward in each if forward]) for each in forwards)
            whole.steps.append(replace(steps[0], forwards=together, backwards=min(step.backwards for step in steps)))
        whole._index()
        return whole

    def _enter(self, event: dict[str, Any]) -> None:
        t, source = event["t"], (event["pid"], event["thread"])
        match event["kind"]:
            case "read":
                self.reads.append(Read(t, source, event["photo"], event["slept_s"]))
            case "transform":
                simple = tuple(
                    Simple(each["name"], each["settings"], tuple(each["before"]), tuple(each["after"]))
                    for each in event["simple"]
                )
                before, after = unit(decode(event["before"])), unit(decode(event["after"]))
                self.transforms.append(Transformed(t, source, simple, before, after))
            case "step":
                forwards = tuple(_forward(each) for each in event["forwards"])
                parameter = None if event["parameter"] is None else tuple(event["parameter"])
                if not self.steps:
                    self.batches = self._last_batches
                life = self._lives.setdefault(event["pid"], len(self._lives))
                self.steps.append(Step(t, forwards, event["backwards"], parameter, life))
            case "iter":
                self.iters.append(t)
                self._last_batches = event["batches"]
                self.workers = max(self.workers, event["workers"])
            case "copy":
                self.copies.append((t, unit(decode(event["picture"])) if event["picture"] else None))
            case "model":
                shapes = tuple(tuple(shape) for shape in event["parameters"])
                self.model = self.model or Model(shapes, event["optimizer"], event["settings"], event["ranks"])

    @property
    def forwards(self) -> list[Forward]:
        """All forward passes in their order."""
        return [forward for step in self.steps for forward in step.forwards]

    def _index(self) -> None:
        """Prepare for `origin`."""
        self._made = _Signatures((number, each.after) for number, each in enumerate(self.transforms))
        self._taken = _Signatures((number, each.before) for number, each in enumerate(self.transforms))
        self.read_for: list[Read | None] = []
        """For each transform, the photo that its thread had opened last and done nothing else with."""
        opened: dict[tuple[int, int], Read] = {}
        events: list[Read | Transformed] = [*self.reads, *self.transforms]
        for event in sorted(events, key=lambda event: event.t):
            if isinstance(event, Read):
                opened[event.source] = event
            else:
                self.read_for.append(opened.pop(event.source, None))

    def origin(self, picture: Array, before: float) -> Origin | None:
        """Follow a picture, given by its signature of unit variance, back from a time. None: no transform made it."""
        simple: list[Simple] = []
        draws: list[tuple[str, int]] = []
        shared_by = 1
        photo = None
        while (number := self._maker(picture, before)) is not None:
            made = self.transforms[number]
            simple.extend(reversed(made.simple))
            drawn = [(each.name, number) for each in made.simple if is_random(each)]
            if drawn:
                draws.extend(drawn)
                shared_by = max(shared_by, len(made.after))
            if read := self.read_for[number]:
                photo = read.photo
            position = int(np.argmin(distance(made.after, picture))) if len(made.before) > 1 else 0
            picture, before = made.before[position], made.t
        if not simple:
            return None
        if photo is None:
            # What has been kept by code of its own comes back as the same picture: see what it was the first time.
            reads = [self.read_for[number] for number in self._taken.near(picture)]
            photo = next((read.photo for read in reads if read), None)
        return Origin(photo, tuple(simple), shared_by, tuple(draws))

    @cached_property
    def traced(self) -> list[Traced]:
        """Where the pictures that entered the model come from: of all, or of so many chosen by chance."""
        pictures = [(forward, row) for forward in self.forwards for row in range(len(forward.values))]
        if len(pictures) > MOST_TRACED:
            pictures = random.sample(pictures, MOST_TRACED)
        found = []
        for forward, row in pictures:
            [picture] = unit(forward.values[row : row + 1])
            if forward.values[row].std() > 0.05 and picture.any():  # else the augmentation has blanked it
                targets = forward.targets or ()
                found.append(Traced(targets[row] if row < len(targets) else None, self.origin(picture, forward.t)))
        return found

    def _maker(self, picture: Array, before: float) -> int | None:
        """The latest transform before a time that made this picture."""
        makers = [number for number in self._made.near(picture) if self.transforms[number].t < before]
        return max(makers, default=None)  # they are in the order of time


class _Signatures:
    """Pictures that can be searched for one that is the same; each belongs to a transform, given by its number."""

    def __init__(self, pictures: Iterable[tuple[int, Array]]) -> None:
        by_width: dict[int, tuple[list[Array], list[int]]] = {}
        for number, rows in pictures:
            all_rows, numbers = by_width.setdefault(rows.shape[1], ([], []))
            all_rows.append(rows)
            numbers.extend([number] * len(rows))
        self.by_width = {width: (np.concatenate(rows), numbers) for width, (rows, numbers) in by_width.items()}

    def near(self, picture: Array) -> list[int]:
        """The transforms that it is the same picture for."""
        if len(picture) not in self.by_width:
            return []
        rows, numbers = self.by_width[len(picture)]
        return [numbers[index] for index in np.flatnonzero(distance(rows, picture) < SAME_PICTURE)]


def is_random(transform: Simple) -> bool:
    """Whether a transform draws anew for each picture."""
    return transform.name.startswith(("Random", "AutoAugment", "TrivialAugment", "AugMix", "ColorJitter", "Gaussian"))


def unit(values: Array) -> Array:
    """Signatures with mean 0 and variance 1 in each channel; a flat channel becomes 0."""
    channels = values.reshape(len(values), -1, SAMPLES)
    centred = channels - channels.mean(axis=2, keepdims=True)
    deviation = centred.std(axis=2, keepdims=True)
    scaled = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 1e-6)
    return scaled.reshape(values.shape).astype(np.float32)


def distance(pictures: Array, picture: Array) -> Array:
    """Root mean square difference of each of the signatures, of shape (pictures, values), to one."""
    return np.sqrt(np.mean((pictures - picture) ** 2, axis=1))


def decode(encoded: dict[str, Any]) -> Array:
    """The way back from `probe.encode`."""
    half = np.frombuffer(base64.b64decode(encoded["base64"]), dtype=np.float16)
    return half.reshape(encoded["shape"]).astype(np.float32)


def _together(shares: Sequence[Forward]) -> Forward:
    """One batch that several ranks share."""
    targets = [share.targets for share in shares]
    return replace(
        shares[0],
        t=min(share.t for share in shares),
        shape=(sum(share.shape[0] for share in shares), *shares[0].shape[1:]),
        values=np.concatenate([share.values for share in shares]),
        targets=None if None in targets else tuple(target for each in targets for target in each or ()),
    )


def _forward(each: dict[str, Any]) -> Forward:
    targets = each.get("targets")
    return Forward(
        t=each["t"],
        shape=tuple(each["shape"]),
        dtype=each["dtype"],
        device=each["device"],
        autocast=each["autocast"],
        values=decode(each["pictures"]),
        targets=None if targets is None else tuple(targets),
    )
