"""Everything that crosses between a watched script and the process that watches it, declared once for both ends.

- `ProbeConfig` and `ProfilerOptions` travel in environment variables as the script starts.
- Messages go over a socket: `Proceed`, `Recompute` and `Repeat` to a script that is judged, which answers with
  `EpochBegan`, `EpochEnded`, `EpochReport`, `Recomputation` and `Repetition`; `SetStage` to a script that is measured,
  which sends `StepReport`.
- Events are appended to files in the run's folder: every class that derives from `Event`. In the same way each process
  that torch.profiler recorded appends a `ProfilerReport`.
"""

import json
from dataclasses import dataclass, field
from typing import Any

PROBE_VARIABLE = "WORKSHOP_PROBE"
PROFILER_VARIABLE = "WORKSHOP_TORCH_PROFILER"
NVTX_VARIABLE = "WORKSHOP_NVTX"
"""The environment variables: of a `ProbeConfig`, of `ProfilerOptions`, and one that asks for NVTX ranges."""


@dataclass(frozen=True)
class JudgedRun:
    """The settings of a run that stops after each epoch and keeps evidence of its work."""

    photos: str | None
    """Opening a file whose path begins with this is an event; None if no file is of interest."""
    epoch_steps: int | None
    """The number of optimizer steps in an epoch; None to use the length of the first DataLoader."""
    sample_step: int | None
    """The step of the first epoch that is recorded to be recomputed, counted from 0."""
    random_states: bool = False
    """Note the state of the CPU's random generator as each batch enters the model."""


@dataclass(frozen=True)
class ProbeConfig:
    """What the probe in a watched script is told as the script starts."""

    folder: str
    """The folder that events and recorded steps are written to."""
    control: int
    """The file descriptor of the socket; the first process of the run claims it."""
    run_index: int = 0
    """How many times the script was started before this run."""
    judged: JudgedRun | None = None
    """None for a run that is only measured: its steps are timed, and nothing else is kept."""


ACTIVITIES = ("cpu", "cuda", "xpu", "mtia", "hpu")
"""The activities that torch.profiler knows on some machine."""

OPERATORS = "profiler_list.dat"
"""The file with the operators of each trace, in the folder of the traces."""


@dataclass(frozen=True)
class ProfilerOptions:
    """When torch.profiler records a training, and what; see torch.profiler for the fields without a text.

    Raises:
        ValueError: there is no such activity.
    """

    wait: int = 5
    """The number of steps of a cycle that are not recorded."""
    warmup: int = 2
    """The number of steps that are recorded and thrown away: the first ones are slow."""
    active: int = 2
    """The number of steps that are kept."""
    repeat: int = 1
    """The number of cycles; 0 for as many as there are."""
    skip_first: int = 0
    """The number of steps before the first cycle."""
    prof_dir: str = "prof"
    """The folder for the traces."""
    activities: tuple[str, ...] = ("cpu", "cuda")
    """What to record: some of `ACTIVITIES`; those that the machine does not have are left out."""
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    tensorboard: bool = False
    """Write the traces for TensorBoard's plugin, too."""
    report: str = ""
    """The file that each recorded process appends a `ProfilerReport` to; empty for none."""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.activities if name not in ACTIVITIES]:
            raise ValueError(f"there is no activity {unknown[0]}; there are {', '.join(ACTIVITIES)}")

    @property
    def first_kept_step(self) -> int:
        """The first step that is kept, counted from 1."""
        return self.skip_first + self.wait + self.warmup + 1


@dataclass(frozen=True)
class ProfilerReport:
    """What torch.profiler has recorded of one process."""

    rank: int
    steps: int
    cycles: int


@dataclass(frozen=True)
class Proceed:
    """Train for another epoch."""

    sample_step: int | None = None
    """The step that is recorded to be recomputed, counted from 0."""
    keep_batches: bool = False
    """Keep some batches for an epoch from memory."""
    from_memory: bool = False
    """Have the DataLoader hand out the kept batches again."""
    trace_copies: bool = False
    """Trace the copies and kernels of a CUDA device."""


@dataclass(frozen=True)
class Recompute:
    """Take a recorded step again with this script's model, loss function and kind of optimizer."""

    samples: list[str]
    """The files of the recorded step: one for each rank that took part in it."""


@dataclass(frozen=True)
class Repeat:
    """Apply random transforms again that another script has recorded."""

    files: list[str]


@dataclass(frozen=True)
class Repetition:
    """A recorded random transform, applied once more with the same draw."""

    name: str = ""
    """The transform's."""
    difference: float = 0.0
    """The root mean square difference of the results, as a fraction of the range of values."""
    threads: bool = False
    """Whether other threads of that process applied random transforms, too, and drew from the same generator."""
    error: str | None = None
    """Why it was not applied; the other fields then mean nothing."""


@dataclass(frozen=True)
class SetStage:
    """Let the following steps belong to another stage of a measurement."""

    stage: str
    """"warm-up": the steps do not count; "as it is"; "synchronized": with a wait for the GPU after each phase;
    "keep": batches are kept; "replay": batches come from memory."""


@dataclass(frozen=True)
class EpochBegan:
    """The first epoch of a run begins: everything before it was start-up."""


@dataclass(frozen=True)
class EpochEnded:
    """The last step of an epoch is done; an `EpochReport` follows."""


@dataclass(frozen=True)
class EpochReport:
    """One epoch of a script that is judged."""

    finished: bool
    """False if the epoch was cut off because the script trains without ever stepping an optimizer."""
    steps: int
    phases: dict[str, float]
    """Seconds in each phase of `phases.Phase`, by the script's own clock."""
    sample: str | None
    """The file of the recorded step, if one was asked for."""
    replaced_clocks: list[str]
    """The functions of `time` that the script has replaced."""
    from_memory: int
    """The number of batches that came from memory."""
    copy_trace: dict[str, list[tuple[int, int]]] | None = None
    """Start and end in ns of each host-to-device copy and each kernel, if they were traced: "copies", "kernels"."""
    cut_short: bool = False
    """True if the script ended in the middle of the epoch, and nobody waits."""


@dataclass(frozen=True)
class Recomputation:
    """A recorded step, computed once more from its own beginning."""

    error: str | None = None
    """Why nothing was computed; the other fields then mean nothing."""
    loss: float = 0.0
    """The loss of the whole batch as computed here."""
    recorded_loss: float = 0.0
    gradient_error: float = 0.0
    """The length of the difference between all recorded gradients and those computed here, divided by the length of the
    latter."""
    gradient_errors: list[float] = field(default_factory=list)
    """The same for each parameter tensor, divided by the length of the noise that rounding makes there."""
    step_error: float = 0.0
    """The largest error of what the optimizer makes of a parameter tensor, relative to its change. The recorded
    gradients are given, so that this is exact but for rounding."""
    state_error: float = 0.0
    """The largest relative error of a tensor of the optimizer's state after the step, in the same way."""
    buffer_error: float = 0.0
    """The largest relative error of a buffer after the step, such as a running mean of batch norm."""
    apart: float = 0.0
    """How far the parameters of the ranks differ, relative to the largest of each tensor."""


@dataclass
class BatchCounts:
    """How many batches of some steps were of which kind."""

    training: int = 0
    """Batches loaded with gradients switched on."""
    validation: int = 0
    """Batches loaded with gradients switched off."""
    elsewhere: int = 0
    """Batches loaded in another thread than the one that trains."""
    kept: int = 0
    from_memory: int = 0


@dataclass(frozen=True)
class StepReport:
    """One step of a script that is measured, or several short ones."""

    stage: str
    steps: int
    phases: dict[str, float]
    """Seconds in each phase of `phases.Phase`."""
    samples: int
    """The number of samples that the steps trained on."""
    batches: BatchCounts
    device: str
    """"cuda" or "cpu"."""


SAMPLES = 64
"""The number of values that the signature of a picture takes of each channel."""


@dataclass(frozen=True)
class Signatures:
    """A few values of each of some pictures, as float16; `signature.encode` makes them."""

    shape: tuple[int, int]
    """(pictures, channels * SAMPLES)."""
    base64: str


@dataclass(frozen=True)
class Event:
    """Something that a process of a judged script did."""

    t: float
    """When, in seconds of the monotonic clock, which all processes of a machine share."""
    pid: int
    thread: int

    @property
    def source(self) -> tuple[int, int]:
        """The process and the thread."""
        return self.pid, self.thread


@dataclass(frozen=True)
class PhotoRead(Event):
    """A photo was opened."""

    photo: str
    """The file's name."""
    slept_s: float
    """The seconds that the thread slept since it opened its last photo."""
    waited_otherwise: bool = False
    """True if the thread has ever waited in a way that is not timed, as by `asyncio.sleep`."""


@dataclass(frozen=True)
class FileWritten(Event):
    """A file was opened to be written, outside of the folders that are the run's own."""

    path: str


@dataclass(frozen=True)
class SimpleTransform:
    """A transform that contains no other one, as it was applied to a picture; sizes are height and width in pixels."""

    name: str
    settings: dict[str, str]
    before: tuple[int, int]
    after: tuple[int, int]
    gap: float = 0.0
    """How far what enters is from what left the transform before, inside of the same outermost one."""
    draw: str = ""
    """A digest of the state of torch's random generator as the transform begins; empty if it is not a random one."""
    scales: tuple[tuple[float, float], ...] = ()
    """Slope and offset of what it makes of each channel of the first picture. Empty if it does more than that, for a
    random transform, and before the first of those."""


RANDOM = tuple("Rand AutoAugment TrivialAugment AugMix ColorJitter ScaleJitter Gaussian Elastic JPEG".split())
"""The names of torchvision's random transforms begin with one of these."""


def is_random(name: str) -> bool:
    """Return whether a transform of this name draws anew for each picture."""
    return name.startswith(RANDOM)


@dataclass(frozen=True)
class TransformCall(Event):
    """An outermost transform was applied, to one picture or to a whole batch."""

    simple: tuple[SimpleTransform, ...]
    """The simple transforms inside, in the order in which they were applied."""
    before: Signatures
    after: Signatures
    decoded: Signatures | None = None
    """The pictures as they entered the first random transform; None if there is none."""
    gap: float = 0.0
    """How far what comes out is from what left the last simple transform."""


@dataclass(frozen=True)
class LoaderStarted(Event):
    """A DataLoader began an epoch."""

    batches: int | None
    """The length of the DataLoader, if it has one."""
    workers: int


@dataclass(frozen=True)
class BatchCopied(Event):
    """The training loop copied a tensor to a device."""

    picture: Signatures | None
    """The signature of the first item; None if the tensor did not come from the CPU."""
    memory: int = 0
    """The address of what came out. It is the tensor itself where it was on the device already."""


@dataclass(frozen=True)
class ParameterGroup:
    """Some parameters of the model, which an optimizer adjusts with the same settings."""

    optimizer: str
    """The optimizer's class."""
    tensors: int
    """The number of parameter tensors in the group."""
    settings: dict[str, Any]
    """The settings that are plain values."""


@dataclass(frozen=True)
class TrainedModel(Event):
    """The model that is followed, as it is at the end of an epoch."""

    parameters: tuple[tuple[int, ...], ...]
    """The shape of each parameter."""
    ranks: int
    """The number of processes in torch.distributed's group; 1 without one."""
    adaptive: bool = False
    """Whether the learning rate depends on how the training goes, as with ReduceLROnPlateau."""


@dataclass(frozen=True)
class OtherOptimizer(Event):
    """What an optimizer has done in an epoch that adjusts parameters of other models than the one that is followed."""

    optimizer: str
    """Its class."""
    shapes: tuple[tuple[int, ...], ...]
    """The shape of each of its parameters."""
    settings: dict[str, Any]
    """The settings of its first group that are plain values."""
    steps: int
    moved: int
    """The number of its parameter tensors that were moved."""


@dataclass(frozen=True)
class ForwardPass:
    """A batch entered the model while gradients were switched on."""

    t: float
    """When, in seconds of the monotonic clock."""
    shape: tuple[int, ...]
    dtype: str
    device: str
    """The kind of device: "cpu", "cuda", ..."""
    autocast: bool
    pictures: Signatures
    targets: list[Any] | None = None
    """The values of the batch's target tensor; None if no loss function was seen."""
    random_state: str | None = None
    """The bytes of `torch.get_rng_state()`, in base64, if they were asked for."""
    random_seed: int | None = None
    """The number that this generator began with, `torch.initial_seed()`; noted with the state."""


@dataclass(frozen=True)
class StepTaken(Event):
    """The optimizer stepped after these forward passes; or it never did, if `parameter` is None."""

    forwards: tuple[ForwardPass, ...] = ()
    backwards: int = 0
    parameter: list[float] | None = None
    """The first values of the model's smallest parameter, after the step."""
    still: tuple[int, ...] = ()
    """The parameter tensors that the step did not move, by their number."""
    touched: tuple[int, ...] = ()
    """The tensors that something has moved between the step before and this one: the model's, then the optimizer's."""
    groups: tuple[ParameterGroup, ...] = ()
    """What adjusts the parameters in this step: the groups of all optimizers. Empty for those of the step before."""


_TAG = "$"
"""The key under which a JSON object names its class; no field of a message has this name."""

_CLASSES = {name: value for name, value in globals().items() if isinstance(value, type)}


def encode(message: Any) -> str:
    """Return a message as JSON in one line."""
    return json.dumps(message, default=lambda part: {_TAG: type(part).__name__} | vars(part))


def decode(line: str | bytes) -> Any:
    """Return the message that `encode` made this line of; tuples inside come back as lists.

    Raises:
        ValueError: the line is no message.
    """

    def restore(values: dict[str, Any]) -> Any:
        return _CLASSES[values.pop(_TAG)](**values) if _TAG in values else values

    return json.loads(line, object_hook=restore)
