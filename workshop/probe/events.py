"""What the processes of a judged script note in files in the run's folder: every class that derives from `Event`."""

from dataclasses import dataclass, field
from typing import Any

SAMPLES = 64
"""The number of values that the signature of a picture takes of each channel."""


@dataclass(frozen=True)
class Signatures:
    """A few values of each of some pictures; `signature.encode` makes them."""

    shape: tuple[int, int]
    """(pictures, channels * SAMPLES)."""
    halves: bytes
    """The values as float16; `judge.signatures.values_of` makes an array of them."""


MAX_TARGETS = 4096
"""The number of values of a target tensor that are noted."""

SKETCH = 16
"""The number of sums in the sketch of an item."""


@dataclass(frozen=True)
class InputRows:
    """What is noted of each item of a batch, as `noted_step.rows_of` takes it; arrays are of float32."""

    rows: tuple[int, ...]
    """The items whose values are noted."""
    sketches: bytes
    """`SKETCH` sums of the values of each item of the batch."""
    width: int
    """How many values are noted of an item."""
    values: bytes


@dataclass(frozen=True)
class WholeItem:
    """One item of a batch of complex numbers, whole."""

    row: int
    """Its place in the batch, the same one in all steps of a run, chosen by chance."""
    values: bytes
    """All of its values as complex64."""


@dataclass(frozen=True)
class Event:
    """Something that a process of a watched script did."""

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
class LinesWritten(Event):
    """What was written in an epoch to a file that is held open; perhaps nothing."""

    name: str
    """Of the file, without its folder."""
    lines: int
    size: int
    """In bytes."""
    steps: int
    """Of the epoch."""
    run_index: int = 0


@dataclass(frozen=True)
class PicturesDrawn(Event):
    """A random transform of torchvision was applied, to one picture or to several at once."""

    name: str
    """The transform's."""
    draw: str
    """The next numbers of torch's random generator as it begins, eight hexadecimal digits each."""
    pictures: int = 1
    size: tuple[int, int] = (0, 0)
    """Their height and width in pixels."""
    settings: dict[str, str] = field(default_factory=dict)
    """The transform's."""
    rank: int = 0
    """The rank that it was applied on, where what several have done is joined."""
    is_anew: bool = False
    """Whether it is no work of the script, but of who makes its items anew."""


@dataclass(frozen=True)
class BatchDrawn(Event):
    """A batch was loaded, and random numbers were drawn for it or after it."""

    states: dict[str, int]
    """What stands for the state of each generator as it began, by its library, if it has moved since then."""
    rank: int = 0
    """The rank that loaded it, where what several have done is joined."""


@dataclass(frozen=True)
class LoaderStarted(Event):
    """A DataLoader began an epoch."""

    workers: int
    persistent: bool = False
    """Whether its workers are kept for the next epoch."""
    ahead: int = 0
    """Batches that its workers load before they are asked for."""
    drops: bool = False
    """Whether some items are left out of each epoch, as they do not fill a batch."""
    items: int | None = None
    """How many items an epoch has, as its sampler says; None if that does not say, or draws no single items."""
    of: int | None = None
    """How many items its dataset has; None if that does not say."""
    dataset: int = 0
    """The number of the dataset, as in `AskedFor`."""


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
    """The settings that are plain values, and those of a gradient scaler."""


@dataclass(frozen=True)
class TrainedModel(Event):
    """The model that is followed, as it is at the end of an epoch."""

    parameters: tuple[tuple[int, ...], ...]
    """The shape of each parameter."""
    ranks: int
    """The number of processes in torch.distributed's group; 1 without one."""
    adaptive: bool = False
    """Whether the learning rate depends on how the training goes, as with ReduceLROnPlateau."""
    is_flat: bool = False
    """Whether `FullyShardedDataParallel` has joined its parameters, so that none is seen as it is."""


@dataclass(frozen=True)
class OtherOptimizer(Event):
    """What an optimizer of a model other than the followed one did in an epoch."""

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
    targets: tuple[Any, ...] | None = None
    """A value for each item of the batch, by its target; None if no loss function was seen."""
    random_state: bytes | None = None
    """`torch.get_rng_state()`, if it was asked for."""
    random_seed: int | None = None
    """The number that this generator began with, `torch.initial_seed()`; noted with the state."""
    item: WholeItem | None = None
    """One item of a batch of complex numbers; noted with the state."""
    inputs: InputRows | None = None
    """More of each item; None in evidence that was recorded before there was such a thing."""
    is_loaded: bool = False
    """Whether it is a tensor that a DataLoader has handed out, or a copy of one; noted of `other_inputs`."""
    is_output: bool = False
    """Whether a module that is trained has made it, as a generator makes what its discriminator gets."""


@dataclass(frozen=True)
class AskedFor:
    """The indexes by which a DataLoader has asked its dataset for the items of a batch."""

    dataset: int
    """The number of the dataset: 0 for the first one that was loaded to train on."""
    epoch: int
    """How many times a DataLoader of this dataset had begun an epoch of the training."""
    indexes: tuple[int, ...]


@dataclass(frozen=True)
class SamplerDrawn(Event):
    """Indexes were drawn beside the training, by a copy of the sampler, because the judge has asked for items."""

    indexes: tuple[int, ...]
    """Those that came; none if all came equally often, as if each comes once in an epoch."""
    counts: tuple[int, ...]
    """How often each of them came."""


@dataclass(frozen=True)
class ItemsDrawn(Event):
    """Items were drawn from the dataset beside the training, because the judge has asked for them."""

    numbers: tuple[int, ...]
    """The number of each item in an epoch."""
    time: int
    """How many times it had been drawn before."""
    drawn: ForwardPass
    """The batch, as if it had entered the model."""
    of: int
    """The number of items in an epoch."""


@dataclass(frozen=True)
class StepTaken(Event):
    """The optimizer stepped after these forward passes; or it never did, if `parameter` is None."""

    forwards: tuple[ForwardPass, ...] = ()
    backwards: int = 0
    parameter: tuple[float, ...] | None = None
    """The first values of the model's smallest parameter, after the step."""
    still: frozenset[int] = frozenset()
    """The parameter tensors that the step did not move, by their number."""
    touched: frozenset[int] = frozenset()
    """The tensors that changed between the previous step and this one: the model's, then the optimizer's."""
    touched_buffers: frozenset[int] = frozenset()
    """The model's buffers that changed from the end of the previous step to the first input of this one."""
    groups: tuple[ParameterGroup, ...] = ()
    """The parameter groups of all optimizers in this step; empty if they are those of the previous step."""
    run_index: int = 0
    """How many times the script had been started before the run that took this step."""
    retaken: int = 0
    """How many steps of others the script's loop had taken before in this run: a counter in it has gone on."""
    is_skipped: bool = False
    """Whether a gradient scaler has left it out, as its gradients are not finite."""
    without_gradients: int = 0
    """The number of items that entered any model without gradients, or to validate, since the last step."""
    asked: tuple[AskedFor, ...] = ()
    """What was asked for, of each batch that came in this step, where it is known."""
    other_inputs: tuple[ForwardPass, ...] = ()
    """What else entered the model, and what entered others: a few tensors that no module of the script has made."""
