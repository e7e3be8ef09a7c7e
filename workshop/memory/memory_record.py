"""What the processes of a script have noted of their memory."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from workshop.probe import wire
from workshop.probe.allocator_use import said_of
from workshop.probe.event_file import why_lost
from workshop.probe.memory.memory_notes import (
    FIRST_STEPS,
    AttributeObjects,
    HeldObject,
    HeldObjects,
    MemorySegment,
    MemoryTrial,
    OldGraph,
    ProbeLook,
    SegmentName,
    TensorRow,
    TouchedAttribute,
    WideItems,
    WorkerContainers,
)
from workshop.probe.observations import AllocatorUse, LoaderIterated, LoaderMade, WireFrame


@dataclass
class MemoryRecord:
    """What one training process has noted, and the workers that load for it."""

    segments: list[MemorySegment] = field(default_factory=list)
    stacks: list[tuple[WireFrame, ...]] = field(default_factory=list)
    numbers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Of the stacks that each process has noted, in its own order, the places among `stacks`."""
    graphs: list[OldGraph] = field(default_factory=list)
    validation_graphs: list[OldGraph] = field(default_factory=list)
    """Those that go back to earlier batches of a validation."""
    probe_looks: list[ProbeLook] = field(default_factory=list)
    held: list[HeldObjects] = field(default_factory=list)
    objects: list[AttributeObjects] = field(default_factory=list)
    touched: list[TouchedAttribute] = field(default_factory=list)
    wide_items: list[WideItems] = field(default_factory=list)
    checkpoints: MemoryTrial | None = None
    workers: dict[int, list[WorkerContainers]] = field(default_factory=lambda: defaultdict(list))
    """By the process of the worker."""
    iterated: list[LoaderIterated] = field(default_factory=list)
    made: dict[int, tuple[WireFrame, ...]] = field(default_factory=dict)
    """The user frames on which each DataLoader was made, by its number."""
    lost: str = ""
    """Why not all could be noted; empty if all was."""

    def stack_of(self, row: TensorRow) -> tuple[WireFrame, ...]:
        """Return the user frames on which the tensors of a row were allocated, outermost first; empty if unknown."""
        return self.stacks[row.stack] if 0 <= row.stack < len(self.stacks) else ()

    @property
    def loader(self) -> LoaderIterated | None:
        """The training's DataLoader, as it was iterated last; None if there is none."""
        return next((each for each in reversed(self.iterated) if each.training), None)

    @property
    def loader_site(self) -> tuple[WireFrame, ...]:
        """The user frames on which that DataLoader was made; empty if that is not known."""
        return self.made.get(self.loader.loader, ()) if self.loader else ()

    @property
    def training(self) -> list[MemorySegment]:
        """The steps that were recorded."""
        return [each for each in self.segments if each.name == SegmentName.TRAINING]

    @property
    def of_allocators(self) -> list[str]:
        """A sentence for each CUDA device whose allocator keeps much without use, or gives memory back often."""
        uses, said = defaultdict[str, list[tuple[int, AllocatorUse]]](list), list[str]()
        for each in self.segments:
            for of in each.devices:
                if of.allocator:
                    uses[of.device].append((each.step, of.allocator))
        for device, of_steps in uses.items():
            steps, use = 0, of_steps[-1][1]
            if settled := [each for each in of_steps if each[0] >= FIRST_STEPS]:
                (first, before), (last, after) = settled[0], settled[-1]
                steps, use = last - first, after.since(before)
            if says := said_of(use, steps):
                said.append(f"The allocator of {device} {says}.")
        return said

    @property
    def failed(self) -> MemorySegment | None:
        """The last segment, if it ended with an allocation that failed: a script that goes on has later ones."""
        last = self.segments[-1] if self.segments else None
        return last if last and last.failure else None

    @property
    def looks(self) -> list[MemorySegment]:
        """The steps for which holders were looked for, the last one first."""
        return [each for each in reversed(self.segments) if each.is_last or each.failure]

    @property
    def epochs(self) -> int:
        """How many epochs had begun; in the first one, no cache has the answer yet."""
        return max((each.epoch for each in self.segments), default=0)

    @property
    def last_held(self) -> tuple[HeldObject, ...]:
        """The containers and arrays that were there when holders were last looked for."""
        last = max(self.held, key=lambda each: each.step, default=None)
        return last.objects if last else ()

    @property
    def last(self) -> MemorySegment | None:
        """The last step for which holders were looked for; None if there is none."""
        return next(iter(self.looks), None)


LISTS = {
    OldGraph: "graphs",
    ProbeLook: "probe_looks",
    HeldObjects: "held",
    AttributeObjects: "objects",
    TouchedAttribute: "touched",
    WideItems: "wide_items",
    LoaderIterated: "iterated",
}
"""The lists of a record that are kept as they were noted."""


def read_memory(folder: Path, trainers: Collection[int]) -> MemoryRecord:
    """Read what some processes have noted in a run's folder: those of one rank, in all of its runs."""
    found = MemoryRecord(lost=why_lost(folder))
    for path in sorted(folder.glob("*.jsonl"), key=lambda each: each.stat().st_mtime):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = wire.decode(line)
            except ValueError:  # a killed process has left it incomplete
                break
            if (event.trainer if isinstance(event, WorkerContainers) else event.pid) in trainers:
                _enter(found, event)
    return found


def _enter(found: MemoryRecord, event: object) -> None:
    match event:
        case MemorySegment():
            found.segments.append(_numbered(found, event))
        case OldGraph(validation=True):
            found.validation_graphs.append(event)
        case MemoryTrial():
            found.checkpoints = event
        case WorkerContainers():
            found.workers[event.pid].append(event)
        case LoaderMade():
            found.made[event.loader] = event.stack
        case _ if name := LISTS.get(type(event)):
            getattr(found, name).append(event)


def _numbered(found: MemoryRecord, segment: MemorySegment) -> MemorySegment:
    """Enter the stacks of a segment, and let its rows name them by their places: each process counts from 0."""
    own = found.numbers[segment.pid]
    own += range(len(found.stacks), len(found.stacks) + len(segment.stacks))
    found.stacks += segment.stacks

    def place(stack: int) -> int:
        return own[stack] if 0 <= stack < len(own) else -1

    at_peak, at_end = (
        tuple(replace(each, stack=place(each.stack)) for each in rows) for rows in (segment.at_peak, segment.at_end)
    )
    freed = tuple(replace(each, stack=place(each.stack)) for each in segment.freed)
    return replace(segment, at_peak=at_peak, at_end=at_end, freed=freed)
