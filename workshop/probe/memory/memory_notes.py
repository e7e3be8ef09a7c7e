"""What the processes of a script note whose memory is measured."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from workshop.probe.events import Event
from workshop.probe.observations import AllocatorUse, WireFrame


class TensorKind(StrEnum):
    """What a tensor is there for; the first of these that fits."""

    PARAMETERS = "parameters"
    """Those of the models, with their buffers."""
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    BATCHES = "batches"
    """What DataLoaders hand out, and its copies on a device."""
    ACTIVATIONS = "activations"
    """What autograd keeps for a backward pass."""
    BACKWARD = "in backward"
    """What a backward pass computes on its way."""
    OTHERS = "others"
    SCRATCH = "inside operators"
    """What an operator allocates and frees by itself."""
    UNKNOWN = "of unknown kind"
    """What a snapshot of torch tells nothing more of."""
    EARLIER = "before the record"
    """What was there when it began."""


OF_TRAINING = (TensorKind.PARAMETERS, TensorKind.GRADIENTS, TensorKind.OPTIMIZER)
"""Kinds that every training has, and that say who holds them."""


MAX_VALIDATIONS = 3
"""So many validations are recorded, the first ones."""

FIRST_STEPS = 2
"""What is allocated in so many steps may stay for good, such as gradients and the state of an optimizer."""

MIN_OBJECTS, MIN_HELD = 10_000, 1 << 20
"""Python objects, and bytes of a container or an array, at least, that are told of."""

MAX_POINTS = 240
"""Points of a curve, about, at most."""

LRU_CACHE = "lru_cache"
"""The type of a container that is the cache of a function."""


class SegmentName(StrEnum):
    """A stretch of a run in which every tensor is followed."""

    START = "start-up"
    """From the import of torch to the first step."""
    TRAINING = "training"
    VALIDATION = "validation"
    OUT_OF_MEMORY = "out of memory"
    """It ended with an allocation that failed."""
    SNAPSHOT = "snapshot"
    """No stretch of a run that was followed, but a moment in a record of torch."""


Group: TypeAlias = tuple[str, str, int, str]
"""What a `TensorRow` is about: device, kind, stack and type."""


@dataclass(frozen=True)
class TensorRow:
    """Tensors of one kind, on one device, that were allocated on one stack."""

    device: str
    kind: str
    """One of `TensorKind`."""
    stack: int
    """The number of the stack of user frames, by the order in which this process has noted them; -1 if unknown."""
    dtype: str
    bytes: int
    count: int
    first_step: int
    """The step in which the oldest of them was allocated; -1 for before the first one."""
    older_bytes: int
    """The size of those that were allocated in an earlier step, but after the first two."""
    older_seen_bytes: int
    """The size of those of them that were seen as they were allocated, in a recorded step."""
    older_steps: int
    """The number of recorded steps in which those were allocated."""
    holder: str = ""
    """Who holds most of them: an expression such as "history.losses[...]"; empty if it was not looked for."""
    holder_stack: tuple[WireFrame, ...] = ()
    """The frame whose variable holds them, then the classes of what has the last attribute on the way to them, with
    line 0; empty if it is not known."""
    holder_steps: int = 0
    """From so many steps that are over the holder has some. A variable that each step assigns anew has those of one
    step at most."""
    holder_limit: int = 0
    """The number of entries that a container on the way to them has at most; 0 without a limit."""
    by_graph: bool = False
    """Whether a graph keeps them that the holder has, and not the holder itself."""
    viewed_bytes: int = 0
    """How much of their storages tensors of Python are views of; 0 if it was not looked for."""

    @property
    def group(self) -> Group:
        """What the row is about."""
        return self.device, self.kind, self.stack, self.dtype


@dataclass(frozen=True)
class TensorsOfDevice:
    """The tensors of one device during a segment."""

    device: str
    peak_bytes: int
    """The most that there were at a time, with what operators allocate inside."""
    end_bytes: int
    allocator_bytes: int | None
    """What the allocator says of what was allocated in this segment, at the moment when the tensors of the segment that
    are followed are most, and no operator is at work; None if it was not asked."""
    followed_bytes: int
    """What these tensors are at that moment: the same, if none is missed."""
    curve: tuple[tuple[float, int], ...]
    """The bytes over time, in seconds from the beginning of the segment; the peak is one of the points."""
    free_bytes: int = 0
    """What is free in the end, with what the allocator has in reserve, on a CUDA device; 0 on others."""
    allocator: AllocatorUse | None = None
    """What the allocator says in the end, or has done in a record of torch; None on a CPU."""


@dataclass(frozen=True)
class LowerPeak:
    """By how much the peak of a device would have been lower in a segment without some tensors."""

    cause: str
    """The name of a `MemoryCause`."""
    device: str
    bytes: int
    stack: int
    """The number of the stack on which to change that; -1 if it is not known."""


@dataclass(frozen=True)
class MemorySegment(Event):
    """Every tensor was followed for a while, such as a step."""

    name: str
    """One of `SegmentName`."""
    step: int
    """The number of the training step, from 0."""
    devices: tuple[TensorsOfDevice, ...]
    at_peak: tuple[TensorRow, ...]
    at_end: tuple[TensorRow, ...]
    stacks: tuple[tuple[WireFrame, ...], ...]
    """The stacks that no event of this process has noted before, outermost frame first."""
    recorded_steps: int = 0
    """How many training steps of this process were recorded so far, the first two left out."""
    epoch: int = 0
    """The number of epochs of a DataLoader that have begun."""
    is_last: bool = False
    """Whether tensors of steps that were not recorded were looked for, and holders."""
    failure: str = ""
    """The message of the allocation that failed."""
    freed: tuple[LowerPeak, ...] = ()
    batch_bytes: int = 0
    """The size of the last batch."""
    samples: int = 0
    """The number of its samples."""


@dataclass(frozen=True)
class OldGraph(Event):
    """A graph of autograd that goes back to steps that are over."""

    holder: str
    """Who holds its end; empty if that is not known."""
    holder_stack: tuple[WireFrame, ...]
    old_operations: int
    """The number of operations that are older than a few steps, of all graphs that it holds."""
    steps: int
    """The number of steps so far."""
    epoch_operations: int = 0
    """The number of those that were made in the present epoch."""
    epoch_steps: int = 0
    """The number of steps in this epoch so far."""
    holder_steps: int = 0
    """From so many earlier steps, or calls in a validation, some of the graphs are."""
    validation: bool = False
    """Whether it goes back to earlier batches of a validation, not to earlier steps."""


@dataclass(frozen=True)
class HeldObject:
    """A container or an array that a variable of the user's code leads to."""

    holder: str
    """The way to it, such as "log.entries"."""
    stack: tuple[WireFrame, ...]
    """The frame of that variable, or of a cache its function, then the classes of what has it as an attribute, with
    line 0. In a worker, the frame of what the dataset has is empty."""
    container: str
    """Its type, such as "list" or "ndarray"."""
    length: int
    bytes: int
    """Of a container, its size with what it contains, estimated from some entries; of an array, what is in memory."""
    identity: int = 0
    """Of a container, in its process. In a worker, only of the arrays that variables of a generator lead to, that of
    one: it may stay, or be of a single item."""
    first_entries: tuple[int, ...] = ()
    """The identities of the first entries of a list, or the first keys of a dict; of an array, a hash of its first
    values. One that is made anew has others."""
    has_limit: bool = False
    """Whether it is a container that grows only until it is full, as far as that can be seen."""
    asked: int = 0
    """Times that a cache of a function was asked."""
    answered: int = 0
    """Times that it had the answer."""
    objects: int = 0
    """How many Python objects a container has, estimated; 0 if it is a small one."""
    spare_bytes: int = 0
    """How much more they take than their numbers and texts would in arrays."""
    dtype: str = ""
    """Of an array."""
    shape: tuple[int, ...] = ()
    of_dataset: bool = False
    """Whether a dataset has it as an attribute."""
    narrower: str = ""
    """A type with fewer bytes that can tell all values apart that were looked at; empty if there is none."""
    rounds_well: bool = False
    """Whether float32 would change these values by very little, compared with their spread."""
    window: int = 0
    """The length of its rows, if each is the one before but for `shift` entries; 0 if they are not."""
    shift: int = 0


@dataclass(frozen=True)
class HeldObjects(Event):
    """The containers and arrays of a training, as holders are looked for."""

    step: int
    """The number of steps so far."""
    objects: tuple[HeldObject, ...]


@dataclass(frozen=True)
class ProbeLook(Event):
    """What was looked at meanwhile has taken memory that is not the script's; what it touches is no longer shared."""

    began_s: float
    """On the monotonic clock."""
    own_bytes: int
    """How much less memory this process shared with others afterwards."""


@dataclass(frozen=True)
class AttributeObjects(Event):
    """The Python objects that an attribute of a dataset holds, in the process that makes the workers."""

    attribute: str
    """Such as "dataset.names"."""
    container: str
    """Its type, such as "list of str"."""
    objects: int
    bytes: int
    """Their size, estimated from a sample of them."""
    stack: tuple[WireFrame, ...]
    """Where its DataLoader was made."""
    loader: int
    """The number of that DataLoader."""
    workers: int
    start_method: str
    """How its workers are started: "fork", "spawn" or "forkserver"."""
    content_bytes: int = 0
    """What their numbers and texts would take in arrays."""
    classes: tuple[WireFrame, ...] = ()
    """The user's classes of the dataset that has the attribute, with line 0."""


@dataclass(frozen=True)
class WideItems(Event):
    """A part of a batch is float64."""

    frame: WireFrame
    """The function of the dataset that makes an item."""
    way: tuple[str, ...]
    """The keys, or the places, that lead to that part."""


@dataclass(frozen=True)
class WorkerContainers(Event):
    """What a worker holds: the containers of its dataset, of what it iterates, and caches of functions."""

    trainer: int
    """The process that the worker loads for."""
    containers: tuple[HeldObject, ...]
    loader: int = -1
    """The number that `AttributeObjects` has for this dataset; -1 for none, as in a worker that was not forked."""
    unshared: tuple[tuple[str, float], ...] = ()
    """The attributes of many Python objects, each with the share of them that is in memory of the worker's own."""


@dataclass(frozen=True)
class TouchedAttribute(Event):
    """A forked process has gone through an attribute of the dataset once, as workers do in the end."""

    attribute: str
    loader: int
    """The number that `AttributeObjects` has for this dataset."""
    private_bytes: int
    """How much more memory that process shared with no other afterwards."""
    untouched_bytes: int
    """The same of a process that has done as much work without touching it."""


@dataclass(frozen=True)
class MemoryTrial(Event):
    """The peak of a pass through a copy of the model, as it is and with checkpoints around its blocks."""

    as_it_is_bytes: int
    changed_bytes: int
    as_it_is_s: float
    changed_s: float
    device: str
    """Where the model is, and the peak was measured."""
    about: str = ""
    """The class of the model."""
