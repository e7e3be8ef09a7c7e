"""What a watched script is told as it starts, in environment variables, and numbers that both sides count on."""

from collections.abc import Sequence
from dataclasses import dataclass

PROBE_VARIABLE = "WORKSHOP_PROBE"
PROFILER_VARIABLE = "WORKSHOP_TORCH_PROFILER"
LINES_VARIABLE = "WORKSHOP_LINES"
NVTX_VARIABLE = "WORKSHOP_NVTX"
"""The environment variables: of a `ProbeConfig`, of `ProfilerOptions`, of a `CountedRun`, and one that asks for NVTX
ranges."""

RUN_VARIABLE = "WORKSHOP_RUN"
"""The environment variable that names the folder of a recorded run, by which its processes are found again."""

FIRST_STEP_VARIABLE = "WORKSHOP_FIRST_STEP"
"""The environment variable with the folder in which a process notes that it has loaded torch, and taken a step."""

REDIRECT_VARIABLE = "WORKSHOP_REDIRECT"
"""The environment variable of `RedirectedImports`."""

MAX_EPOCH_STEPS = 50
"""Steps, at most, of an epoch of a judged script, unless the judge asks for another number."""

MAX_KEPT = 8
"""The number of batches that are kept of one DataLoader, for a stage with batches from memory."""

DRAWS = 5
"""So often the items of a step are drawn anew where its inputs are not the same as those of the first draw."""

WRITTEN_EVERY_S = 0.5
"""The time between two moments when a process writes the stacks that it has sampled."""


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
    """Note the state of the CPU's random generator as each batch enters the model, and of complex ones an item."""
    max_epoch_s: float | None = None
    """A first epoch of a length that is not given ends after this many seconds, also before its DataLoader does; None
    for the usual time, and never in the middle of a short DataLoader."""
    alike: Sequence[int] = ()
    """The steps of an epoch that may be recorded; empty for all of them."""


@dataclass(frozen=True)
class ProbeConfig:
    """What the probe in a watched script is told as the script starts."""

    folder: str
    """The folder that events and recorded steps are written to."""
    socket: str
    """The path of the socket that processes connect to: the first one of a judged run, else each that trains."""
    run_index: int = 0
    """How many times the script was started before this run."""
    judged: JudgedRun | None = None
    """None for a run that is only measured."""
    memory: bool = False
    """Whether a run that is measured is about memory: tensors are followed, and no stacks are sampled."""
    every_step: bool = False
    """Whether they are followed in every step and validation, and not only where that is cheap."""


ACTIVITIES = ("cpu", "cuda", "xpu", "mtia", "hpu")
"""The activities that torch.profiler knows on some machine."""

REPORTS = "reports.jsonl"
"""The file that each recorded process appends a `ProfilerReport` to, in the folder of the run."""

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
    """The number of cycles; 0: until the run ends."""
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
    stop: bool = False
    """End the training when the last cycle has been kept."""
    folder: str = ""
    """The folder for what recorded processes tell whoever records them; empty if nobody does."""

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
class CountedRun:
    """What the processes of a run are told whose lines are counted."""

    folder: str
    """The folder that the counts are written to."""
    more: tuple[str, ...]
    """Folders of installed packages whose lines are counted beside user code."""
    only: tuple[str, ...] = ()
    """The names of the functions to be counted, qualified or not; empty for all."""


@dataclass(frozen=True)
class RedirectedImports:
    """Where the modules of an earlier version of a repository are, beside its working tree."""

    tree: str
    """The top folder of the working tree, without symbolic links."""
    base: str
    """The folder with the files of the earlier version, without symbolic links."""
