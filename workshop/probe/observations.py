"""What the processes of a watched script note in files in the run's folder, beside what they send."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from workshop.probe.events import Event

WireFrame: TypeAlias = tuple[str, str, int]
"""A frame of a call stack: the function's name, the path of its file, and the number of the line."""


class Role(StrEnum):
    """What a sampled thread is there for."""

    TRAINING = "training"
    WORKER = "worker"
    """The main thread of a DataLoader's worker."""


@dataclass(frozen=True)
class ProcessActivity:
    """What a process that has loaded torch has done so far."""

    pid: int
    script: str
    """The name of the file that the process runs."""
    batches: int = 0
    """Those that DataLoaders have handed out."""
    forwards: int = 0
    """Calls of models, and of other modules that the script itself calls."""
    backwards: int = 0
    optimizer_steps: int = 0
    """Those of optimizers of torch."""
    fault: str = ""
    """Why the probe has left this process alone, if it has failed there."""


@dataclass(frozen=True)
class StackSamples(Event):
    """What a thread of this process was doing, some times in a row."""

    trainer: int
    """The process that trains: this one, or the one that this DataLoader's worker loads for."""

    frames: tuple[WireFrame, ...]
    """The frames that no event of this process has named before; they are numbered in the order of their naming."""
    stacks: tuple[tuple[int, ...], ...]
    """The stacks that no event of this process has named before, outermost frame first, numbered likewise."""
    samples: tuple[tuple[float, str, str, int], ...]
    """Each with its time on the monotonic clock, the thread's `Role`, the phase of the step, and its stack."""
    cpu_s: float
    """The CPU time that the process has used so far."""


@dataclass(frozen=True)
class LoaderMade(Event):
    """A DataLoader was made."""

    loader: int
    stack: tuple[WireFrame, ...]
    """Where, outermost frame first."""


@dataclass(frozen=True)
class LoaderIterated(Event):
    """`iter(loader)` was called on a DataLoader."""

    loader: int
    workers: int
    persistent: bool
    training: bool
    """Whether gradients were switched on."""
    collate: tuple[str, str]
    """The name and the file of its collate function; empty texts where it is no Python function."""


@dataclass(frozen=True)
class SettingMade(Event):
    """The script has called a function that changes how everything is computed."""

    function: str
    """"set_num_threads", "detect_anomaly", "double", "to" or "set_default_dtype"."""
    values: tuple[str, ...]
    """Those of its arguments that are plain values."""
    stack: tuple[WireFrame, ...]


@dataclass(frozen=True)
class BackwardPass(Event):
    """A backward pass on one device, cut into the lines of the forward pass that made its operations."""

    step: int
    """The number of the training step, from 0."""
    operations: int
    """The number of operations in the graph."""
    parts: tuple[tuple[float, int, tuple[WireFrame, ...]], ...]
    """For each stack on which operations were made in the forward pass: the seconds that they took, and their number.
    The stack is empty where torch does not know it."""
    loops: tuple[tuple[str, int, int], ...]
    """The lines that have called something many times in the forward pass: path, line, and the number of times."""


@dataclass(frozen=True)
class Trial(Event):
    """Forward and backward of a copy of the model, on a batch of the training, as it is and with one thing changed."""

    name: str
    as_it_is_s: float
    """The median of some repetitions."""
    changed_s: float
    error: str = ""
    """Why nothing was tried; the seconds then mean nothing."""
