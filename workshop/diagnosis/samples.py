"""The stacks sampled in a script and its DataLoader workers, and what else their processes noted."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from workshop import probe
from workshop.probe import wire
from workshop.probe.event_file import why_lost
from workshop.probe.events import Event
from workshop.probe.internals import WORKER_LOOP
from workshop.probe.listener import TELL
from workshop.probe.observations import (
    BackwardPass,
    LargestMade,
    LineRuns,
    LoaderIterated,
    LoaderMade,
    Noticed,
    OperatorWork,
    Role,
    SettingMade,
    StackSamples,
    Trial,
    WireFrame,
    WorkerAsked,
)
from workshop.profiles.code_origin import CodeOrigins
from workshop.profiles.stacks import Frame, Recording, Stack
from workshop.runs.staged_run import StagedRun

PROBE = str(Path(probe.__file__).parent)

ENTER = "enter", str(Path(PROBE) / "phase_clock.py")
"""The function and the file of what may wait for the GPU as a phase begins: for what other lines have asked of it."""


@dataclass(frozen=True)
class Sample:
    """What a thread was doing at some time."""

    time_s: float
    """On the monotonic clock, which all processes of a machine share."""
    weight_s: float
    """The time since the previous sample of the same process."""
    pid: int
    role: Role
    phase: str
    """The phase of the step; empty for a thread that does not train."""
    stack: tuple[Frame, ...]
    """The frames, outermost first, without those of the workshop's own hooks; none while these wait for the GPU."""


@dataclass
class Observations:
    """Everything that the processes of a measured script noted, in chronological order for each process."""

    samples: list[Sample] = field(default_factory=list)
    backward_passes: list[BackwardPass] = field(default_factory=list)
    raced: list[Trial] = field(default_factory=list)
    noticed: dict[str, Noticed] = field(default_factory=dict)
    """The last that was noticed of each cause, by its name."""
    line_runs: list[LineRuns] = field(default_factory=list)
    largest_made: list[LargestMade] = field(default_factory=list)
    operators: OperatorWork | None = None
    """What the operators of a step compute; None if that was not measured."""
    iterated: list[LoaderIterated] = field(default_factory=list)
    made: dict[int, tuple[Frame, ...]] = field(default_factory=dict)
    """The stack on which each DataLoader was made, by its number."""
    datasets: dict[int, int] = field(default_factory=dict)
    """The identity of each DataLoader's dataset, by the DataLoader's number."""
    asks_for_worker: bool = False
    """Whether code that is not torch's has asked which worker it runs in."""
    settings: list[SettingMade] = field(default_factory=list)
    cpu: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """By process: pairs of a time and the CPU time used until then, in seconds."""
    lost: str = ""
    """Why a process could not note everything; empty if all was noted."""

    @property
    def trials(self) -> dict[str, Trial]:
        """Return the last trial of each name."""
        return {each.name: each for each in self.raced}

    def repeats(self, loader: LoaderIterated) -> bool:
        """Return whether each of several workers would go through the whole dataset."""
        return loader.iterable and not (self.asks_for_worker or loader.shares_out)

    def epochs_of_line(self, loader: LoaderIterated) -> list[LoaderIterated]:
        """Return the epochs of all DataLoaders that were made in the line of this one."""
        site = self.made.get(loader.loader)
        return [each for each in self.iterated if self.made.get(each.loader) == site]

    def is_remade(self, loader: LoaderIterated) -> bool:
        """Return whether its line makes one DataLoader after the other."""
        return len({each.loader for each in self.epochs_of_line(loader)}) > 1

    def changes(self, loader: LoaderIterated) -> bool:
        """Return whether the script changes its dataset between epochs, which workers that are kept do not see."""
        return len({each.dataset_state for each in self.epochs_of_line(loader)}) > 1

    def of(self, role: Role, begin_s: float, end_s: float) -> list[Sample]:
        """Return the samples of threads with this role between two times."""
        return [each for each in self.samples if each.role == role and begin_s < each.time_s <= end_s]

    @property
    def largest_by_line(self) -> list[tuple[tuple[Frame, ...], LargestMade]]:
        """The frames of user code of each `LargestMade`, and it."""
        return [(self.user_frames_of(each.stack), each) for each in self.largest_made]

    def cores_used(self, begin_s: float, end_s: float) -> float:
        """Return how many cores all processes together kept busy between two times."""
        used_s = 0.0
        for noted in self.cpu.values():
            within = [cpu_s for time_s, cpu_s in noted if begin_s <= time_s <= end_s]
            used_s += within[-1] - within[0] if within else 0.0
        return used_s / (end_s - begin_s)

    @cached_property
    def origins(self) -> CodeOrigins:
        """Tells frames of user code from those of libraries."""
        return CodeOrigins(Recording([Stack(each.stack, 1) for each in self.samples]))

    def user_frames(self, stack: Iterable[Frame]) -> tuple[Frame, ...]:
        """Return the frames of a stack that are user code, outermost first."""
        return tuple(frame for frame in stack if self.origins.is_user_code(frame))

    def user_frames_of(self, stack: Iterable[WireFrame]) -> tuple[Frame, ...]:
        """Return the frames of a noted stack that are user code, outermost first."""
        return self.user_frames(frames_of(stack))


def read_observations(folder: Path, trainers: Collection[int]) -> Observations:
    """Read what training processes, and the workers that load for them, noted in a run's folder."""
    found = Observations(lost=why_lost(folder))
    for path in sorted(folder.glob("*.jsonl")):
        events = list(_events(path))
        if any(getattr(each, "trainer", each.pid) in trainers for each in events):
            _enter(found, events)
    found.samples.sort(key=lambda sample: sample.time_s)
    return found


def observations_of(run: StagedRun, rank: int | None = None) -> Observations:
    """Return what the processes of a rank have noted so far, those of the leading one by default."""
    rank = run.lead if rank is None else rank
    assert rank is not None
    return read_observations(run.script.folder, run.script.trainers[rank])


def frames_of(stack: Iterable[WireFrame]) -> tuple[Frame, ...]:
    """Convert a noted stack to frames, without those of the workshop's own hooks."""
    return tuple(Frame(name, path, line) for name, path, line in stack if not path.startswith(PROBE))


def _below_fork(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The part of a forked worker's stack that it called itself, without the frames of the loop that forked it."""
    begin = next((at for at, frame in enumerate(stack) if frame.name == WORKER_LOOP), 0)
    return stack[begin:]


def _events(path: Path) -> Iterator[Event]:
    """The events of a file, up to a line that a killed process left incomplete."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield wire.decode(line)
        except ValueError:
            return


def _enter(found: Observations, events: Iterable[Event]) -> None:
    frames: list[WireFrame] = []
    stacks: list[tuple[Frame, ...]] = []
    not_the_script: set[int] = set()
    taken: dict[float, list[tuple[Role, str, int]]] = defaultdict(list)
    pid = 0
    for event in events:
        match event:
            case StackSamples():
                pid = event.pid
                found.cpu[pid].append((event.t, event.cpu_s))
                frames += event.frames
                for numbers in event.stacks:
                    wired = [frames[number] for number in numbers]
                    if any((name, path) == TELL for name, path, _ in wired):
                        not_the_script.add(len(stacks))
                    waits = any((name, path) == ENTER for name, path, _ in wired)  # it is no line's time
                    stacks.append(() if waits else _below_fork(frames_of(wired)))
                for time_s, role, phase, stack in event.samples:
                    taken[time_s].append((Role(role), phase, stack))
            case BackwardPass():
                found.backward_passes.append(event)
            case Trial():
                found.raced.append(event)
            case Noticed():
                found.noticed[event.name] = event
            case LineRuns():
                found.line_runs.append(event)
            case LargestMade():
                found.largest_made.append(event)
            case OperatorWork():
                found.operators = event
            case LoaderIterated():
                found.iterated.append(event)
            case LoaderMade():
                found.made[event.loader] = frames_of(event.stack)
                found.datasets[event.loader] = event.dataset
            case WorkerAsked():
                found.asks_for_worker = True
            case SettingMade():
                found.settings.append(event)
    for before, now in pairwise(sorted(taken)):
        weight_s = min(now - before, 1.0)  # after more, the whole process was held up
        found.samples += [
            Sample(now, weight_s, pid, role, phase, stacks[stack])
            for role, phase, stack in taken[now]
            if stack not in not_the_script
        ]
