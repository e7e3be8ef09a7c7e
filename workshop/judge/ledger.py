"""The ledger of a script: the work that it did, read from the events of its processes."""

import json
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from workshop.errors import WorkshopError
from workshop.probe import wire
from workshop.probe.event_file import why_lost
from workshop.probe.events import (
    BatchCopied,
    BatchDrawn,
    Event,
    FileWritten,
    ForwardPass,
    InputRows,
    ItemsDrawn,
    LinesWritten,
    LoaderStarted,
    OtherOptimizer,
    ParameterGroup,
    PhotoRead,
    PicturesDrawn,
    SamplerDrawn,
    Signatures,
    StepTaken,
    TrainedModel,
)
from workshop.probe.messages import Recomputation, Repetition

_KINDS = {kind.__name__: kind for kind in Event.__subclasses__()}


@dataclass
class Ledger:
    """Everything that a script did in all its runs."""

    reads: list[PhotoRead] = field(default_factory=list)
    draws: list[PicturesDrawn] = field(default_factory=list)
    """What its random transforms began to draw with."""
    drawn_anew: list[PicturesDrawn] = field(default_factory=list)
    """The same, as items were made anew for the judge."""
    batches: list[BatchDrawn] = field(default_factory=list)
    """The batches that it loaded, and drew something for."""
    steps: list[StepTaken] = field(default_factory=list)
    loader_starts: list[float] = field(default_factory=list)
    """The times at which a DataLoader began an epoch."""
    copies: list[BatchCopied] = field(default_factory=list)
    model: TrainedModel | None = None
    files: list[str] = field(default_factory=list)
    """The files that it wrote outside its own folders."""
    written: list[LinesWritten] = field(default_factory=list)
    """What it wrote to files that it holds open, epoch by epoch."""
    others: list[OtherOptimizer] = field(default_factory=list)
    """What the optimizers of other models did, epoch by epoch."""
    drops_items: bool = False
    """Whether a DataLoader leaves out some items of each epoch, different ones each time."""
    replaced_clocks: list[str] = field(default_factory=list)
    """The functions of `time` that the script has replaced."""
    loaders: list[LoaderStarted] = field(default_factory=list)
    """The epochs of DataLoaders that have supplied training steps."""
    sampled: SamplerDrawn | None = None
    """What its sampler drew beside the training."""
    drawn: list[ItemsDrawn] = field(default_factory=list)
    """Items that were drawn from its dataset beside the training, a batch each."""
    recomputed: list[Recomputation] = field(default_factory=list)
    """Some of its steps, recomputed by the original; empty for an original known to be reproducible."""
    repeated: list[Repetition] = field(default_factory=list)
    """Some random transforms, applied again by the original."""
    ranks: list["Ledger"] = field(default_factory=list)
    """The ledger of each rank, if there are several."""
    workers: int = 0
    """The number of workers of the last DataLoader that supplied training steps."""
    ahead: int = 0
    """The most batches that the workers of such a DataLoader load before they are asked for."""
    restarts_workers: bool = False
    """Whether a DataLoader that supplies training steps restarts its workers in each epoch."""

    @classmethod
    def of(cls, folder: Path) -> "Ledger":
        """Read the events in a script's folder."""
        return cls.of_events(events_in(folder))

    @classmethod
    def of_events(cls, events: Iterable[Event]) -> "Ledger":
        """Enter events, given in chronological order."""
        ledger = cls()
        groups: tuple[ParameterGroup, ...] = ()
        loaders: dict[float, LoaderStarted] = {}  # those that have supplied training steps, by start time
        loader = None
        for event in events:
            match event:
                case PhotoRead():
                    ledger.reads.append(event)
                case PicturesDrawn():
                    (ledger.drawn_anew if event.is_anew else ledger.draws).append(event)
                case BatchDrawn():
                    ledger.batches.append(event)
                case StepTaken():
                    loaders |= {loader.t: loader} if loader else {}
                    groups = event.groups or groups
                    ledger.steps.append(replace(event, groups=groups))
                case LoaderStarted():
                    loader = event
                    ledger.loader_starts.append(event.t)
                    ledger.drops_items |= event.drops
                case BatchCopied():
                    ledger.copies.append(event)
                case OtherOptimizer():
                    ledger.others.append(event)
                case SamplerDrawn():
                    ledger.sampled = event
                case ItemsDrawn():
                    ledger.drawn.append(event)
                case FileWritten():
                    ledger.files.append(event.path)
                case LinesWritten():
                    ledger.written.append(event)
                case TrainedModel():
                    first = ledger.model or event  # a schedule may be seen to adapt only after the first epoch
                    ledger.model = replace(first, adaptive=first.adaptive or event.adaptive)
        ledger.loaders = list(loaders.values())
        ledger.workers = [0, *(each.workers for each in loaders.values())][-1]
        ledger.ahead = max((each.ahead for each in loaders.values()), default=0)
        ledger.restarts_workers = sum(each.workers > 0 and not each.persistent for each in loaders.values()) > 1
        return ledger

    @classmethod
    def of_ranks(cls, ledgers: Sequence["Ledger"]) -> "Ledger":
        """Join the ledgers of all ranks as if a single process had done it all: shares of a batch become one batch."""
        if len(ledgers) == 1:
            return ledgers[0]
        # The slowest rank counts: a rank may still make its input after another has begun the step.
        starts = [max(each) for each in zip(*(ledger.loader_starts for ledger in ledgers), strict=False)]
        whole = cls(loader_starts=starts, model=ledgers[0].model, others=ledgers[0].others, ranks=list(ledgers))
        whole.written = [each for ledger in ledgers for each in ledger.written]
        whole.reads = sorted((read for ledger in ledgers for read in ledger.reads), key=lambda read: read.t)
        for rank, ledger in enumerate(ledgers):
            whole.draws += [replace(each, rank=rank) for each in ledger.draws]
            whole.batches += [replace(each, rank=rank) for each in ledger.batches]
        for shares in zip_longest(*(ledger.steps for ledger in ledgers)):
            steps = [step for step in shares if step]
            forwards = zip_longest(*(step.forwards for step in steps))
            together = tuple(_together([forward for forward in each if forward]) for each in forwards)
            whole.steps.append(replace(steps[0], forwards=together, backwards=min(step.backwards for step in steps)))
        return whole

    @property
    def forwards(self) -> list[ForwardPass]:
        """All forward passes in their order."""
        return [forward for step in self.steps for forward in step.forwards]

    @property
    def optimizer_steps(self) -> list[StepTaken]:
        """The steps in which an optimizer stepped."""
        return [step for step in self.steps if step.parameter is not None]

    @property
    def largest_batch(self) -> ForwardPass:
        """One of the largest batches."""
        return max(self.forwards, key=lambda forward: forward.shape[0])

    def items_in(self, steps: slice) -> int:
        """Count the items in some of the steps."""
        return sum(forward.shape[0] for step in self.steps[steps] for forward in step.forwards)


def epochs(ledger: Ledger, steps: int | None = None) -> list[list[StepTaken]]:
    """Return the steps of each epoch, without unfinished epochs.

    An epoch has this many `steps`; if None, it lasts from one `iter(loader)` to the next.
    """
    if steps is None and len(ledger.loader_starts) < 2:
        steps = len(ledger.steps)
    if steps is None:
        by_start: dict[int, list[StepTaken]] = {}
        for step in ledger.steps:
            began = step.forwards[0].t if step.forwards else step.t
            by_start.setdefault(bisect(ledger.loader_starts[1:], began), []).append(step)
        full = [by_start[start] for start in sorted(by_start)]
        return full[:-1] if len(full) > 1 and len(full[-1]) < len(full[0]) else full
    by_run: dict[int, list[StepTaken]] = {}
    for step in ledger.steps:
        by_run.setdefault(step.run_index, []).append(step)
    whole = [run[i : i + steps] for run in by_run.values() for i in range(0, len(run), steps)]
    return [epoch for epoch in whole if len(epoch) == steps] or [ledger.steps]


def forwards_in(steps: Sequence[StepTaken]) -> list[ForwardPass]:
    """Return the forward passes of some steps, in order."""
    return [forward for step in steps for forward in step.forwards]


def targets_in(steps: Sequence[StepTaken]) -> Counter[Any]:
    """Count how often each target occurs."""
    return Counter(target for forward in forwards_in(steps) for target in forward.targets or ())


def events_in(folder: Path) -> list[Event]:
    """Return all events in a folder, by time, without a line that is still being written.

    Raises:
        WorkshopError: some events are lost.
    """
    if why := why_lost(folder):
        raise WorkshopError(
            f"not all that the script does could be noted in {folder}: {why}; set TMPDIR to another folder"
        )
    events: list[Event] = []
    for path in folder.glob("*.jsonl"):
        whole, _, _ = path.read_text().rpartition("\n")
        events.extend(map(as_event, whole.splitlines()))
    return sorted(events, key=lambda event: event.t)


def as_event(line: str | bytes) -> Event:
    """Return the event that a process has noted in this line, with tuples and sets restored."""
    fields = json.loads(line)
    return msgspec.convert(fields, _KINDS[fields.pop(wire.TAG)])


def _together(shares: Sequence[ForwardPass]) -> ForwardPass:
    targets = [share.targets for share in shares]
    rows = sum(share.pictures.shape[0] for share in shares)
    return replace(
        shares[0],
        t=max(share.t for share in shares),
        shape=(sum(share.shape[0] for share in shares), *shares[0].shape[1:]),
        pictures=Signatures((rows, shares[0].pictures.shape[1]), b"".join(share.pictures.halves for share in shares)),
        targets=None if None in targets else tuple(target for each in targets for target in each or ()),
        inputs=_inputs_together(shares),
    )


def _inputs_together(shares: Sequence[ForwardPass]) -> InputRows | None:
    inputs = [share.inputs for share in shares if share.inputs]
    firsts = np.cumsum([0, *(share.shape[0] for share in shares)]).tolist()
    if len(inputs) < len(shares) or len({each.width for each in inputs}) > 1:
        return None
    rows = tuple(first + row for first, each in zip(firsts, inputs, strict=False) for row in each.rows)
    sketches, values = (b"".join(getattr(each, name) for each in inputs) for name in ("sketches", "values"))
    return InputRows(rows, sketches, inputs[0].width, values)
