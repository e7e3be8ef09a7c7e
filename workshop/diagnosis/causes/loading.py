"""Causes in the loading of data: items, collating, workers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workshop.diagnosis.findings import Finding, finding, gain_of
from workshop.diagnosis.lines import Path, hottest
from workshop.diagnosis.measured_steps import MeasuredSteps
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations, Sample
from workshop.probe.observations import LoaderIterated, Role
from workshop.probe.phases import COMPUTING, Phase
from workshop.processes.machine import core_quota, usable_cores
from workshop.profiles.stacks import Frame

LITTLE = 0.04
"""Where the loading holds up a smaller share of a step, nothing is said of it."""

DOMINATES = 0.8
"""A line of this share of the loading is the one to mend; else there are several, and more workers help them all."""

MOSTLY = 0.5
"""Batches whose workers take a larger share of their time to move them are too large."""

NEARLY_ALL = 0.8
"""If this share of the cores' time is used, whatever runs is in the way of something else."""

BUSY = 0.7
"""Workers that load for this share of their time cannot keep up."""

HINDERS = 1.25
"""Workers hinder the training if it computes this many times as fast without them."""

LOADER = "torch/utils/data/dataloader.py"
FETCH = "torch/utils/data/_utils/fetch.py"
COLLATE = "torch/utils/data/_utils/collate.py"
"""Where torch loads a batch, and where it joins the items."""

MEGABYTE = 1e6
LARGE_BATCH = 4 * MEGABYTE


def loading_findings(measurement: Measurement) -> list[Finding]:
    """Return what holds the loading up; nothing where the data are there when the training wants them."""
    loading = Loading(measurement)
    if not loading.loader:
        return []
    found = _restarts(loading)
    if loading.share < LITTLE and not loading.hinders:
        return found
    if loading.hinders and loading.workers > _cores():
        return found + _large_batches(loading) + _contention(loading)
    lines = _lines(loading)
    if loading.hinders and not any(each.share >= MOSTLY * loading.share for each in lines):
        lines += _contention(loading)
    dominates = any(each.share >= DOMINATES * loading.share for each in lines)
    return found + lines + _large_batches(loading) + ([] if dominates else _few_workers(loading))


@dataclass(frozen=True)
class Loading:
    """How the batches of a training were loaded."""

    measurement: Measurement

    @property
    def steps(self) -> MeasuredSteps:
        """The steps of the script as it is."""
        return self.measurement.steps

    @property
    def observations(self) -> Observations:
        """What was noted meanwhile."""
        return self.measurement.observations

    @cached_property
    def loader(self) -> LoaderIterated | None:
        """The DataLoader that the training iterated last."""
        training = [each for each in self.observations.iterated if each.training and each.t <= self.steps.ended_s]
        return training[-1] if training else None

    @cached_property
    def made(self) -> Path:
        """The own frames in which it was made."""
        return self.observations.own(self.observations.made.get(self.loader.loader, ()) if self.loader else ())

    @property
    def workers(self) -> int:
        """The number of its workers."""
        return self.loader.workers if self.loader else 0

    @property
    def share(self) -> float:
        """The share of data wait in a step."""
        return self.measurement.table.share(Phase.DATA_WAIT)

    @property
    def process(self) -> str:
        """The kind of process that loads."""
        return "worker" if self.workers else "training"

    @cached_property
    def samples(self) -> list[Sample]:
        """The samples of the threads that load, in the workers or in the training's own process."""
        role = Role.WORKER if self.workers else Role.TRAINING
        samples = self.observations.of(role, self.steps.began_s, self.steps.ended_s)
        if not self.workers:
            return [each for each in samples if each.phase == Phase.DATA_WAIT]
        loaded = {each.pid for each in samples if _in_torch(each.stack, FETCH)}  # others may wait for a validation
        return [each for each in samples if each.pid in loaded]

    @cached_property
    def busy(self) -> list[Sample]:
        """Those in which a batch was being loaded: a worker also waits for its next order."""
        return [each for each in self.samples if _in_torch(each.stack, FETCH)]

    @property
    def busy_share(self) -> float:
        """The share of its time in which a worker loads."""
        return _weight(self.busy) / (_weight(self.samples) or 1.0)

    def own_paths(self, wanted: Callable[[Sample], bool]) -> list[tuple[Path, float]]:
        """Return the own frames of what was called to load a batch, with their weights, of some samples."""
        return [(self.observations.own(_below_fetch(each.stack)), each.weight_s) for each in self.busy if wanted(each)]

    @property
    def computing_ms(self) -> float:
        """The least time that a step takes, however fast the loading."""
        if self.measurement.headroom:
            return min(self.measurement.headroom.ms_a_step, self.steps.ms_a_step)
        return self.steps.ms_a_step * (1.0 - self.share)

    def gain_without(self, part: float) -> float:
        """Return how many times as fast a step is without a part of the loading."""
        step_ms = self.steps.ms_a_step
        if not self.workers:
            least_ms = self.computing_ms + step_ms * self.share * (1.0 - part)
        elif self.hinders:
            least_ms = self.computing_ms + (step_ms - self.computing_ms) * (1.0 - part)
        else:
            least_ms = max(self.computing_ms, step_ms * (1.0 - part))
        return gain_of(step_ms, least_ms)

    @cached_property
    def computed_ms(self) -> tuple[float, float]:
        """Milliseconds a step that the training computes, beside its workers and while none of them runs."""
        both = (self.steps, self.measurement.headroom or self.steps)
        beside, alone = (sum(each.phases_s[phase] for phase in COMPUTING) / each.count * 1e3 for each in both)
        return beside, alone

    @cached_property
    def cores_used(self) -> float:
        """The number of cores that all processes together kept busy."""
        return self.observations.cores_used(self.steps.began_s, self.steps.ended_s)

    @property
    def hinders(self) -> bool:
        """Whether the workers take the cores away that the training computes with."""
        beside, alone = self.computed_ms
        return bool(self.workers) and beside > HINDERS * alone and self.cores_used > NEARLY_ALL * _cores()


def _lines(loading: Loading) -> list[Finding]:
    """The line of an item, or of the collate function, that most of the loading goes into."""
    if loading.workers and loading.busy_share < BUSY and not loading.hinders:
        return []
    all_of_it = _weight(loading.busy) or 1.0
    collate = loading.loader.collate if loading.loader else ("", "")
    found = []
    for cause, wanted in [
        ("slow-item", lambda each: not _calls(each.stack, collate)),
        ("slow-collate", lambda each: _calls(each.stack, collate)),
    ]:
        line = hottest(loading.own_paths(wanted))
        if line is None or line.weight / all_of_it < LITTLE:
            continue
        part = line.weight / all_of_it * (1.0 if loading.workers else _weight(loading.busy) / _weight(loading.samples))
        found.append(
            finding(
                cause,
                _LINE_WORDS[cause],
                gain=loading.gain_without(part),
                phase=Phase.DATA_WAIT,
                path=line.path,
                process=loading.process,
                ms_a_step=part * loading.share * loading.steps.ms_a_step,
                share=part * loading.share,
            )
        )
    return found


_LINE_WORDS = {
    "slow-item": "Make this line cheaper, do its work once and keep the result, or let more workers share it.",
    "slow-collate": "This line joins the items of a batch: do it for all of them at once, or as each is loaded.",
}


def _few_workers(loading: Loading) -> list[Finding]:
    """More workers would load side by side, if there are cores for them, or if they only wait."""
    if loading.workers and loading.busy_share < BUSY:
        return []
    steps = loading.steps
    used = loading.cores_used
    least_ms = max(loading.computing_ms, steps.ms_a_step * used / _cores())
    who, do = "The training loads its batches itself", "let workers do it with num_workers"
    if loading.workers:
        who, do = f"num_workers is {loading.workers}, and they cannot keep up", "take more"
    return [
        finding(
            "few-workers",
            f"{who}, and of {_cores():g} cores {max(_cores() - used, 0.0):.1f} are idle: {do}.",
            gain=gain_of(steps.ms_a_step, least_ms),
            phase=Phase.DATA_WAIT,
            path=loading.made,
            ms_a_step=loading.share * steps.ms_a_step,
            share=loading.share,
            measured=loading.measurement.headroom is not None and least_ms == loading.computing_ms,
        )
    ]


def _large_batches(loading: Loading) -> list[Finding]:
    """Batches that take longer to be moved from a worker than to be loaded."""
    steps = loading.steps
    if not loading.workers or not steps.batches or steps.batch_bytes / steps.batches < LARGE_BATCH:
        return []
    joining = [each for each in loading.busy if _in_torch(each.stack, COLLATE)]
    moved = _weight(joining) / (_weight(loading.busy) or 1.0)
    if moved < MOSTLY:
        return []
    return [
        finding(
            "large-batches",
            f"A batch of {steps.batch_bytes / steps.batches / MEGABYTE:.0f} MB takes longer to be moved from a worker "
            "than to be loaded: load without workers, or send smaller numbers such as uint8.",
            gain=gain_of(steps.ms_a_step, loading.computing_ms),
            phase=Phase.DATA_WAIT,
            path=loading.made,
            ms_a_step=loading.share * steps.ms_a_step,
            share=loading.share,
            measured=loading.measurement.headroom is not None,
        )
    ]


def _contention(loading: Loading) -> list[Finding]:
    """Workers that compete with the training for the cores."""
    steps, (beside, alone) = loading.steps, loading.computed_ms
    if not loading.hinders:
        return []
    return [
        finding(
            "worker-contention",
            f"The training computes {beside / alone:.1f} times as fast while no worker runs: the {loading.workers} "
            "workers and the training compete for the cores. Try fewer workers, or one thread for each.",
            gain=gain_of(steps.ms_a_step, loading.computing_ms),
            path=loading.made,
            ms_a_step=beside - alone,
            share=(beside - alone) / steps.ms_a_step,
            measured=True,
        )
    ]


def _restarts(loading: Loading) -> list[Finding]:
    """Workers that are started anew, again and again."""
    steps = loading.steps
    begins = [
        each.t
        for each in loading.observations.iterated
        if each.training and each.workers and steps.began_s < each.t <= steps.ended_s
    ]
    if len(begins) < 2 or (loading.loader and loading.loader.persistent and len(loading.observations.made) <= 2):
        return []
    ends = steps.ended_s - np.cumsum(np.array(steps.durations_s)[::-1])[::-1] + np.array(steps.durations_s)
    began_in = np.searchsorted(ends, begins)
    samples = loading.observations.of(Role.TRAINING, steps.began_s, steps.ended_s)
    waits = np.zeros(len(ends) + 1)
    starting, paths = 0.0, list[tuple[Path, float]]()
    for sample in samples:
        starts = _starts_workers(sample.stack)
        starting += sample.weight_s * starts
        if sample.phase == Phase.DATA_WAIT and not starts:
            waits[np.searchsorted(ends, sample.time_s)] += sample.weight_s
        if starts or sample.phase == Phase.DATA_WAIT:
            paths.append((loading.observations.own(sample.stack), sample.weight_s))
    restarted = np.isin(np.arange(len(ends)), began_in)
    usual = waits[:-1][~restarted].mean() if (~restarted).any() else 0.0
    lost_s = starting + max(0.0, float((waits[:-1][restarted] - usual).sum()))
    share = lost_s / (steps.ended_s - steps.began_s)
    line = hottest(paths)
    return [
        finding(
            "worker-restarts",
            f"Workers are started anew {len(begins)} times in {steps.count} steps, and the training waits for each "
            "first batch: keep them with persistent_workers=True, and make the DataLoader once.",
            gain=gain_of(
                steps.ms_a_step, min(loading.computing_ms + float(usual) * 1e3, steps.ms_a_step * (1.0 - share))
            ),
            phase=Phase.DATA_WAIT,
            path=line.path if line else loading.made,
            ms_a_step=lost_s / steps.count * 1e3,
            share=share,
        )
    ]


def _starts_workers(stack: tuple[Frame, ...]) -> bool:
    names = ("__init__", "_shutdown_workers", "__del__")
    return any(frame.path.endswith(LOADER) and frame.name in names for frame in stack)


def _cores() -> float:
    return min(usable_cores(), core_quota() or usable_cores())


def _weight(samples: list[Sample]) -> float:
    return sum(each.weight_s for each in samples)


def _in_torch(stack: tuple[Frame, ...], path: str) -> bool:
    return any(frame.path.endswith(path) for frame in stack)


def _calls(stack: tuple[Frame, ...], function: tuple[str, str]) -> bool:
    return any((frame.name, frame.path) == tuple(function) for frame in stack)


def _below_fetch(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """What torch has called to load a batch."""
    last = max((at for at, frame in enumerate(stack) if frame.path.endswith(FETCH)), default=-1)
    return stack[last + 1 :]
