"""What the processes of a watched script note in files in the run's folder, beside what they send."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from workshop.probe.events import Event
from workshop.probe.loader_settings import LoaderSettings

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
    transformed: int = 0
    """Those of them inside of torch.func."""
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
    dataset: int = 0
    """The identity of its dataset: a library may make another DataLoader of the one that it is given."""


@dataclass(frozen=True)
class LoaderIterated(Event):
    """`iter(loader)` was called on a DataLoader."""

    loader: int
    settings: LoaderSettings
    training: bool
    """Whether gradients were switched on."""
    collate: tuple[str, str]
    """The name and the file of its collate function; empty texts where it is no Python function."""
    batches: int | None = None
    """The number of batches of an epoch; None where it is not known."""
    iterable: bool = False
    """Whether each worker goes through the dataset by itself."""
    shares_out: bool = False
    """Whether workers may share it out without asking who they are: `worker_init_fn` may do it, and torch does it for a
    data pipe."""
    singles: int = 0
    """The number of single samples that each batch is put together from, if it could be taken at once; else 0."""
    dataset_state: str = ""
    """A digest of the dataset's plain attributes: one that changes from epoch to epoch would not reach workers that are
    kept."""


@dataclass(frozen=True)
class WorkerAsked(Event):
    """Code that is not torch's has asked which worker it runs in: so an iterable dataset hands out its share there."""


@dataclass(frozen=True)
class SettingMade(Event):
    """The script has called a function that changes how everything is computed."""

    function: str
    """"set_num_threads", "detect_anomaly", "double", "to", "set_default_dtype", "zero_grad", "Embedding", "Optimizer"
    with the name of its class, or "Trainer" of a framework with the settings that say how often something is done."""
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


ARRAYS = " arrays"
"""The end of the form of a container of NumPy's arrays, such as "list of 24 arrays"."""


@dataclass(frozen=True)
class Operand:
    """What a statement reads or writes: a tensor, an array, a number, a text, or a container of such."""

    name: str
    """As in the source, such as "self.table[index]"."""
    form: str
    """Such as "float32 [24, 8]", or "list of 24"."""
    size: int
    """In bytes; of a container, about."""
    length: int
    """The number of its rows, or entries; 0 of what has none."""
    learned: bool
    """Whether gradients go to it, or through it; of a module, whether it has weights."""
    memory: int
    """The address of what it is a part of, or the whole of; 0 of what is no tensor and no array."""
    same_run: tuple[int, int]
    """In how many runs it was the same as in an earlier run of that step, and of how many this is known."""
    same_step: tuple[int, int]
    """The same, as in any run of an earlier step."""
    longer: tuple[int, int] = (0, 0)
    """In how many runs it was larger than in the one before, of the same step if that has several; and of how many."""
    different: tuple[int, int] = (0, 0)
    """How many of its rows differ, in all runs together, and how many there are; 0 where that is not known."""
    grown: tuple[int, int] = (0, 0)
    """In how many runs that read and write it, it was larger than before them; and by how many bytes in all."""


@dataclass(frozen=True)
class LineRuns(Event):
    """What a statement was run with in some steps, and what it has made."""

    file: str
    line: int
    """The first of its lines."""
    steps: int
    """The steps, of those that were watched, in which it was run."""
    runs: int
    """How often it was run in them."""
    turns: int
    """The turns of a loop inside of it, such as a comprehension, or of the loop that it is the head of."""
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    draws: bool
    """Whether random numbers were drawn in it."""
    with_gradients: bool
    """Whether gradients were switched on in a run."""
    trainer: int
    """The process that trains: another than this one, if a copy of that has loaded batches. Each is a step, then."""
    written: int = 0
    """The bytes that this process writes to files in a run; 0 where that is not known."""


@dataclass(frozen=True)
class Noticed(Event):
    """Something that was watched, and is said without a gain; later ones of the same cause take its place."""

    name: str
    """The name of the cause, whose words say it."""
    about: str
    setting: str = ""
    """What goes into the words."""


@dataclass(frozen=True)
class Trial(Event):
    """A race of something as it is, and with one thing changed."""

    name: str
    as_it_is_s: float
    """The shortest of some passes."""
    changed_s: float
    usual_s: float = 0.0
    """The median of the unchanged passes."""
    error: str = ""
    """Why nothing was tried; the seconds then mean nothing."""
    applies: bool = True
    """Whether there was something to try."""
    rounds: tuple[tuple[float, float], ...] = ()
    """The seconds of both passes, unchanged and changed, in each round."""
    begin_s: float = 0.0
    """How much longer the first changed pass took than a later one."""
    difference: float | None = None
    """The largest difference of the results, relative to the largest value; None if they cannot be compared."""
    draws: bool = False
    """Whether random numbers are drawn, so that the results differ anyway."""
    times: float = 1.0
    """How often a training step does what was tried."""
    about: str = ""
    """What was changed: a module, an optimizer's class, or a line."""
    stack: tuple[WireFrame, ...] = ()
    """The user's frames that it is about, if it is about a line."""
    setting: str = ""
    """What was changed to, if that was searched for, such as "4 threads"."""
    leads_on: bool = False
    """Whether gradients go through what they are unused of, and on to others that are used."""


@dataclass(frozen=True)
class LargestMade(Event):
    """The largest tensor that an operator makes which a line calls, by itself or in libraries; no backward pass."""

    stack: tuple[WireFrame, ...]
    """The user's frames."""
    form: str
    """Such as "float32 [24, 8]"."""
    size: int
    """In bytes."""


@dataclass(frozen=True)
class AllocatorUse:
    """What the allocator of a CUDA device has, and what it has done so far, or in some time."""

    reserved_bytes: int
    """What it has taken from the device, and keeps."""
    allocated_bytes: int
    """The most of it that was allocated at a time."""
    returned: int
    """How often it has given memory back to the device, as `empty_cache` has it do."""
    retries: int
    """How often it has found too little left, and has given back all that it could before it asked again."""

    def since(self, before: "AllocatorUse") -> "AllocatorUse":
        """Return the same, but with how often since then."""
        return replace(self, returned=self.returned - before.returned, retries=self.retries - before.retries)


@dataclass(frozen=True)
class OperatorWork(Event):
    """What the operators of a step compute, without its validation, and how fast this device computes."""

    seconds: float = 0.0
    """For how long they compute: without the time of their calls or, on a GPU, that in which it is at work; 0 if it is
    not known."""
    step_s: float = 0.0
    """The duration of these steps, with the profiler."""
    trace: str = ""
    """The name of the file in the run's folder that has their trace; empty if none was kept."""
    calls: int = 0
    """How many operators the script calls; on a GPU, how many kernels there are."""
    operations: float = 0.0
    """The floating-point operations of products, convolutions and attention, by torch's flop counter."""
    bytes: float = 0.0
    """What operators read and write; 0 if it is not known, nor what follows."""
    dtype: str = ""
    """The type of the numbers in most of these operations."""
    products: dict[str, float] = field(default_factory=dict)
    """By type: the operations per second of a large matrix product."""
    copied: float = 0.0
    """The bytes per second that a large copy reads and writes."""
    error: str = ""
    """Why not all is known; empty if it is."""
