"""What goes over the socket between a watched script and the process that watches it.

A script that is judged receives `Proceed`, `Recompute`, `Repeat` and `DrawItems`, and answers with `EpochBegan`,
`EpochEnded`, `EpochReport`, `Recomputation`, `Repetition` and `DrawnItems`. A script that is measured receives
`SetStage`s and sends `StepReport`. Both send a `ProbeFault` if the probe has failed in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from workshop.probe.loader_settings import LoaderSettings


@dataclass(frozen=True)
class ProbeFault:
    """The probe has failed in a process of the script, which goes on without it."""

    fault: str
    """The exception, and where it was raised."""


@dataclass(frozen=True)
class Proceed:
    """Train for another epoch, or for part of one."""

    sample_step: int | None = None
    """The step that is recorded to be recomputed, counted from 0."""
    steps: int | None = None
    """The number of optimizer steps; None for an epoch."""
    keep_batches: bool = False
    """Keep some batches for an epoch from memory."""
    from_memory: bool = False
    """Have the DataLoader hand out the kept batches again."""
    trace_copies: bool = False
    """Trace the copies and kernels of a CUDA device."""
    alike: Sequence[int] = ()
    """The steps of an epoch that may be recorded; empty for all of them."""


@dataclass(frozen=True)
class Recompute:
    """Let this script's own loop take a step that another script has recorded."""

    samples: Sequence[str]
    """The files of the recorded step: one for each rank that took part in it."""


@dataclass(frozen=True)
class Repeat:
    """Apply random transforms again that another script has recorded."""

    files: Sequence[str]


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
class DrawItems:
    """Draw items from the dataset, beside the training, and note what they are as an event each."""

    items: int = 4096
    """The largest number of items that are drawn once."""
    times: int = 4
    """How often some of them are drawn."""
    batches_again: int = 16
    """How many batches are drawn more than once."""
    seconds: float = 4.0


@dataclass(frozen=True)
class DrawnItems:
    """How many items were drawn, all draws counted."""

    count: int = 0
    error: str | None = None
    """Why there are no more."""


@dataclass(frozen=True)
class SetStage:
    """Let the following steps belong to another stage of a measurement: to one of the classes below."""


@dataclass(frozen=True)
class WarmUp(SetStage):
    """The steps before any stage, which do not count."""


@dataclass(frozen=True)
class AsItIs(SetStage):
    """The script's own steps are timed."""


@dataclass(frozen=True)
class Synchronized(SetStage):
    """The script waits for the GPU after each phase."""


@dataclass(frozen=True)
class KeepBatches(SetStage):
    """Some batches are kept in memory."""


@dataclass(frozen=True)
class FromMemory(SetStage):
    """The kept batches take the place of those that DataLoaders would load."""


@dataclass(frozen=True)
class MeasureOperators(FromMemory):
    """It is measured what the operators of some steps compute, and how fast the device is; kept batches go on."""

    steps: int = 1
    """How many steps are profiled; the work of one more is counted."""
    stacks: bool = False
    """Whether stacks are recorded, and the trace is kept."""


@dataclass(frozen=True)
class LoadWith(SetStage):
    """Other DataLoaders load the batches of the training."""

    settings: LoaderSettings
    loader: int = -1
    """The number of the DataLoader that others take the place of, with all that are made in its line; -1 for all."""
    trial: int = 0
    """The number of the trial, as one may follow another with the same settings."""


@dataclass(frozen=True)
class TryCauses(SetStage):
    """Causes are tried, or watched for."""

    causes: tuple[str, ...] = ()
    """The names of causes of `workshop.probe.trials`."""


@dataclass(frozen=True)
class LookCloser(TryCauses):
    """Backward passes are cut into lines, too."""


@dataclass(frozen=True)
class WatchedLine:
    """A statement of user code that is watched, with what it reads and writes: names, attributes, entries by index."""

    file: str
    line: int
    """The first of its lines."""
    last: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    """"return" is what it returns."""


@dataclass(frozen=True)
class WatchLines(SetStage):
    """It is watched what some statements are run with, and what they make."""

    lines: tuple[WatchedLine, ...]


@dataclass(frozen=True)
class WatchLoading(LoadWith):
    """It is watched what some statements are run with in a process that loads batches, without workers."""

    lines: tuple[WatchedLine, ...] = ()


@dataclass(frozen=True)
class LookForHolders(SetStage):
    """One more step is recorded by `workshop memory`, with who holds what there is at its end."""


@dataclass(frozen=True)
class TouchDatasets(SetStage):
    """A forked process goes through what datasets hold, so that it is known how much memory becomes its own."""


@dataclass(frozen=True)
class TryCheckpoints(SetStage):
    """Checkpoints are tried on a copy of the model."""


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
    """Seconds in each phase of `phases.Phase`, by the script's clock."""
    sample: str | None
    """The file of the recorded step, if one was asked for."""
    replaced_clocks: Sequence[str]
    """The functions of `time` that the script has replaced."""
    from_memory: int
    """The number of batches that came from memory."""
    copy_trace: str | None = None
    """The file of a trace of the device, if one was asked for."""
    recording_s: float = 0.0
    """The seconds that recording a step took: they are no part of any phase."""
    cut_short: bool = False
    """True if the script ended in the middle of the epoch, and nobody waits."""
    whole_steps: int | None = None
    """The number of steps in a whole epoch of the DataLoader, which this one may be a part of; None if not known."""
    sampled_step: int | None = None
    """The number in the epoch, from 0, of the step that was recorded: the one that was asked for, or one soon after."""


@dataclass(frozen=True)
class Likeness:
    """How far inputs are from several draws of the same items."""

    look: str
    """What of them was compared."""
    items: int
    ranks: Sequence[float]
    """Of the recorded inputs, and of each draw: the rank of its distance from all others, from 0 for the nearest, on
    the average of the items of a batch. Of draws that are alike, it is half of the number of draws."""


@dataclass(frozen=True)
class MadeAnew:
    """What entered the models in a recorded step, beside what another script makes of the same items."""

    items: int = 0
    same: int = 0
    """Items of which all inputs are the same but for rounding."""
    is_seeded: bool = False
    """Whether both were made with the same seeds. What follows is only known where they are not all the same."""
    nearest: int = 0
    """Items that are nearer to what is made with these seeds than to each of `DRAWS` other draws, or the same."""
    errors: Sequence[float] = ()
    """Of each item that is not the same, how far it is off: the root mean square, as a share of the deviation of all
    values."""
    in_part: int = 0
    """Items of which an input is the same, though it is drawn anew each time, and another such input is not."""
    others: int = 0
    """Items of which an input is not the same, though it is never drawn anew."""
    varies: bool = False
    """Whether the other script draws other inputs of the same items each time."""
    by_chance: float = 1.0
    """The chance that what is always the same, such as targets, would be as much alike if the items were others."""
    likenesses: Sequence[Likeness] = ()
    """Of each batch; none if the inputs are the same."""
    error: str | None = None
    """Why they cannot be compared."""


@dataclass(frozen=True)
class Recomputation:
    """A recorded step, taken once more from its own beginning."""

    error: str | None = None
    """Why it was not taken; the other fields then mean nothing."""
    loss: float = 0.0
    """The loss of the whole batch as it came out here."""
    recorded_loss: float = 0.0
    gradient_error: float = 0.0
    """The length of the difference between all recorded gradients and those computed here, divided by the length of the
    latter."""
    gradient_errors: Sequence[float] = ()
    """The same for each parameter tensor, divided by the length of the noise that rounding makes there."""
    step_error: float = 0.0
    """The largest error of what the optimizer makes of a parameter tensor, relative to its change. The recorded
    gradients are given, so that this is exact but for rounding."""
    state_error: float = 0.0
    """The largest relative error of a tensor of the optimizer's state after the step, in the same way."""
    buffer_error: float = 0.0
    """The largest relative error of a buffer, such as a running mean of batch norm: after the step, and of several
    ranks before it, too, where it must be what the last step has left on one of them, or the mean."""
    apart: float = 0.0
    """How far the parameters of the ranks differ, relative to the largest of each tensor."""
    doubt: str = ""
    """Why a difference would prove nothing, such as a batch that could not be handed over; empty if it would."""
    is_mapped: bool = False
    """Whether the recorded parameters have other shapes, or another order, and were taken for those of this script."""
    attempts: int = 0
    """How many times the loop has begun to take the step."""
    is_drawn: bool = False
    """Whether the step draws at random, and other draws make a difference that is about as large."""
    copied: int = 0
    """The number of tensors that are of copies of the model, such as an average, which the step changes, too."""
    made: MadeAnew | None = None
    """Its inputs beside those that are made of the same items here; None if it is not known which items they are."""


class StepUnit(StrEnum):
    """What is counted as a training step: the first of these that the script does."""

    OPTIMIZER = "optimizer step"
    BACKWARD = "backward pass"
    BATCH = "batch"


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
    with_workers: int = 0
    """Batches that another DataLoader has loaded in place of the script's."""
    bytes: int = 0
    """The size of the arrays of all training batches."""
    pageable_bytes: int = 0
    """The size of what was copied to a GPU from memory that is not pinned."""


@dataclass(frozen=True)
class Circumstances:
    """What decides how fast a step is computed, as it was in the last one."""

    device: str = "cpu"
    """"cuda" or "cpu"."""
    threads: int = 0
    """The number of threads of a CPU operation."""
    double: bool = False
    """Whether the model computes in double precision."""
    anomaly_mode: bool = False
    compiled: bool = False
    """Whether torch.compile has made the model."""
    forked: bool = False
    """Whether the process was forked off one that had loaded torch: more threads would wait for each other forever."""
    distributed: bool = False
    """Whether the process trains together with others, in a process group."""


@dataclass(frozen=True)
class StepReport:
    """One step of a script that is measured, or several short ones."""

    stage: SetStage
    """The message that has begun the stage which the steps belong to."""
    durations_us: tuple[int, ...]
    """The duration of each step."""
    ended_s: float
    """When the last of them ended, on the monotonic clock."""
    phases: dict[str, float]
    """Seconds in each phase of `phases.Phase`, of all steps."""
    samples: int
    """The number of samples that the steps trained on."""
    batches: BatchCounts
    circumstances: Circumstances
    pid: int = 0
    """The process that trains."""
    rank: int | None = None
    """The rank that the process has been given; None if it has none."""
    unit: str = StepUnit.OPTIMIZER
    """What is counted as a step."""
    epochs_begun: int = 0
    """The number of epochs of a DataLoader that began during these steps, with gradients switched on."""
    first_step: int = 0
    """The number of the first of these steps, from 0."""
    backward_s: tuple[float, ...] = ()
    """When the last backward pass of each step began, on the monotonic clock: other ranks wait for each other in it."""
    forwards: tuple[int, ...] = ()
    """The number of calls of modules in each step, of those that the script itself calls."""
    failure: str = ""
    """Why other settings could not load, if they were tried and failed."""
    started_s: float = 0.0
    """The seconds from the start of another DataLoader to its first batch, if that came in these steps; otherwise 0."""
    waits_s: tuple[tuple[int, float], ...] = ()
    """The number of each DataLoader that the training waited for, and the seconds."""

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.durations_us)

    @property
    def seconds(self) -> float:
        """Their duration together."""
        return sum(self.durations_us) / 1e6
