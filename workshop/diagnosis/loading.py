"""How the batches of a training run were loaded: by which processes, how long it took, and what slowed what down."""

import linecache
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from workshop.diagnosis.findings import COST_MARGIN, MIN_SHARE_OF_STEP, gain_of
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations, Sample
from workshop.diagnosis.user_lines import HotLine, hottest
from workshop.diagnosis.user_lines import Path as UserPath
from workshop.notebooks.cell_places import line_of
from workshop.probe.internals import FETCH_PATH, LOADER_PATH, STARTS_OR_ENDS_WORKERS
from workshop.probe.observations import LoaderIterated, Role
from workshop.probe.own_limits import usable_cores
from workshop.probe.phases import COMPUTING, Phase
from workshop.profiles.stacks import Frame
from workshop.runs.machine import core_quota
from workshop.runs.measured_steps import MeasuredSteps

MIN_BUSY = 0.7
"""Share of their time, at least, that workers load if they cannot keep up."""

MIN_CORES_USED = 0.8
"""Share of the cores' time, at least, that is used where processes compete for the cores."""

MIN_HINDRANCE = 1.25
"""The factor, at least, by which computing is faster without workers that hinder it."""

MAX_CORES_WAITING = 0.6
"""Share of the cores' time, at most, that is used where loading waits for something else, and more can wait at once."""

MAX_WORKERS = 8
"""Workers, at most, that are tried."""

MEGABYTE = 1e6
LARGE_BATCH = 4 * MEGABYTE
"""Bytes, at least, of a batch that takes long to be moved from a worker."""


@dataclass(frozen=True)
class LoadingLine:
    """A line of user code that takes part of the loading."""

    file: str
    line: int
    function: str
    text: str
    share: float
    """The share of the loading's time that is spent in it, with all that it calls."""

    @property
    def words(self) -> str:
        """Which line takes most of the loading, and what workers do about that."""
        place = f"{line_of(self.file, self.line)}, in {self.function}"
        return (
            f"As it is, {self.share:.0%} of the time to load an item goes into {place}: {self.text}. "
            "Workers run this line for several items at a time, and make it no cheaper."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "words": self.words}


@dataclass(frozen=True)
class Loading:
    """How the batches of a training run were loaded."""

    measurement: Measurement

    @property
    def steps(self) -> MeasuredSteps:
        """The steps of the unchanged script."""
        return self.measurement.steps

    @property
    def observations(self) -> Observations:
        """What the script's processes noted."""
        return self.measurement.observations

    @cached_property
    def loader(self) -> LoaderIterated | None:
        """The DataLoader that the training iterated last."""
        training = [each for each in self.observations.iterated if each.training and each.t <= self.steps.ended_s]
        return training[-1] if training else None

    @cached_property
    def made(self) -> UserPath:
        """The frames of user code in which the DataLoader was made."""
        return self.observations.user_frames(self.observations.made.get(self.loader.loader, ()) if self.loader else ())

    @property
    def workers(self) -> int:
        """The DataLoader's number of workers."""
        return self.loader.settings.workers if self.loader else 0

    @property
    def restarts(self) -> int:
        """How often workers were restarted in these steps."""
        return len(self._restarted_s)

    @cached_property
    def _restarted_s(self) -> list[float]:
        """When workers were restarted in these steps, on the monotonic clock."""
        began = [each.t for each in self.observations.iterated if each.training and each.settings.workers]
        kept = self.loader and self.loader.settings.persistent and len(self.observations.made) <= 2
        return [] if kept else [each for each in began if self.steps.began_s < each <= self.steps.ended_s]

    @property
    def rhythm_ms(self) -> list[float]:
        """What the noise is seen in where workers are started anew, as the pause for that is no chance.

        It is the mean step of each whole epoch or, of fewer than three, the steps in which none are started.
        """
        begin = np.unique(np.searchsorted(self.steps.ends_s, self._restarted_s))
        durations_ms = 1e3 * np.array(self.steps.durations_s)
        if begin.size > 3:
            return [float(durations_ms[first:last].mean()) for first, last in pairwise(begin)]
        return list(np.delete(durations_ms, begin[begin < durations_ms.size])) if begin.size else []

    @property
    def share(self) -> float:
        """The share of data wait in a step."""
        return self.measurement.table.share(Phase.DATA_WAIT)

    @property
    def batch_bytes(self) -> float:
        """The size of a batch."""
        return self.steps.batch_bytes / self.steps.batches if self.steps.batches else 0.0

    @property
    def is_moving(self) -> bool:
        """Whether batches may be slow to move: they are large, or training waits for them though workers are idle."""
        return self.workers > 0 and (self.batch_bytes > LARGE_BATCH or self.busy_share < MIN_BUSY)

    @cached_property
    def samples(self) -> list[Sample]:
        """The samples of the threads that load, in the workers or in the training's own process."""
        role = Role.WORKER if self.workers else Role.TRAINING
        samples = self.observations.of(role, self.steps.began_s, self.steps.ended_s)
        if not self.workers:
            return [each for each in samples if each.phase == Phase.DATA_WAIT]
        loaded = {each.pid for each in samples if _loads(each.stack)}  # others may wait for a validation
        return [each for each in samples if each.pid in loaded]

    @cached_property
    def busy(self) -> list[Sample]:
        """The `samples` in which a batch was being loaded; a worker also waits for its next order."""
        return [each for each in self.samples if _loads(each.stack)]

    @property
    def busy_share(self) -> float:
        """The share of the training's wait in which the busiest worker loads, or of all time if none was seen to wait.

        While it computes, workers may have nothing to do, and those of a validation have nothing to do with its wait.
        """
        begin_s, end_s = self.steps.began_s, self.steps.ended_s
        waits = [each for each in self.observations.of(Role.TRAINING, begin_s, end_s) if each.phase == Phase.DATA_WAIT]
        ends_s, ends = [each.time_s for each in waits], len(waits)

        def is_waited_for(sample: Sample) -> bool:
            at = bisect_left(ends_s, sample.time_s)
            return at < ends and ends_s[at] - waits[at].weight_s <= sample.time_s

        of_wait = [each for each in self.samples if is_waited_for(each)] if self.workers else []
        by_worker = defaultdict[int, list[Sample]](list)
        for each in of_wait or self.samples:
            by_worker[each.pid].append(each)
        busy = [weight([one for one in own if _loads(one.stack)]) / weight(own) for own in by_worker.values()]
        return max(busy, default=0.0)

    def user_paths(self, wanted: Callable[[Sample], bool]) -> list[tuple[UserPath, float]]:
        """Return the user-code frames below torch's fetch call, with weights, of the wanted samples."""
        return [
            (self.observations.user_frames(_below_fetch(each.stack)), each.weight_s)
            for each in self.busy
            if wanted(each)
        ]

    def is_collating(self, sample: Sample) -> bool:
        """Return whether the items of a batch are put together."""
        function = self.loader.collate if self.loader else ("", "")
        return any((frame.name, frame.path) == function for frame in sample.stack)

    @property
    def collate_line(self) -> HotLine | None:
        """The line of user code with which batches are put together that most time goes into; None if none is seen."""
        return hottest(self.user_paths(self.is_collating))

    @property
    def item_line(self) -> HotLine | None:
        """The same, with which items are made."""
        return hottest(self.user_paths(lambda each: not self.is_collating(each)))

    @property
    def slowest_line(self) -> "LoadingLine | None":
        """The line of user code that takes most of the loading; None if loading takes too little, or none is seen."""
        line = hottest(self.user_paths(lambda _: True)) if self.matters else None
        if line is None:
            return None
        text = linecache.getline(line.frame.path, line.frame.line or 0).strip()
        share = line.weight / (weight(self.busy) or 1.0)
        return LoadingLine(line.frame.path, line.frame.line or 0, line.frame.name, text, share)

    @property
    def computing_ms(self) -> float:
        """The milliseconds that a step takes at least, however fast the loading."""
        if self.measurement.headroom:
            return min(self.measurement.headroom.ms_a_step, self.steps.ms_a_step)
        return self.steps.ms_a_step * (1.0 - self.share)

    def hindered_ms(self, alternative: MeasuredSteps | None) -> float:
        """Return the milliseconds per step that workers add to computing, if the alternative's is shorter."""
        if not (self.workers and alternative and is_longer(self.steps, alternative)):
            return 0.0
        return self.steps.ms_in(*COMPUTING) - alternative.ms_in(*COMPUTING)

    def max_gain(self, alternative: MeasuredSteps | None) -> float:
        """Return the largest gain from loading differently: the rule for all causes in the loading.

        It is at most the gain of batches from memory, and of ending the wait for data: computing takes as long as
        before. Only workers that hinder the training cost more than that wait, if steps that were loaded differently,
        the `alternative`, have shown it.
        """
        step_ms, headroom = self.steps.ms_a_step, self.measurement.headroom
        hindered_ms = self.hindered_ms(alternative)
        waits_ms = step_ms * min(self.waits_share, 1.0) + hindered_ms
        gain = 1.0 + COST_MARGIN * (gain_of(step_ms, step_ms - waits_ms) - 1.0)
        hinder_there = hindered_ms and alternative and headroom and is_longer(headroom, alternative)
        if headroom and not hinder_there:
            gain = min(gain, gain_of(step_ms, headroom.ms_a_step))
        return max(gain, 1.0)

    @cached_property
    def waits_share(self) -> float:
        """The share of a step in which the training waits for data, or for workers that it starts or ends."""
        samples = self.observations.of(Role.TRAINING, self.steps.began_s, self.steps.ended_s)
        starting = [each for each in samples if each.phase != Phase.DATA_WAIT and starts_workers(each.stack)]
        return self.steps.share(Phase.DATA_WAIT) + weight(starting) / self.steps.wall_s

    @cached_property
    def cores_used(self) -> float:
        """The share of the cores' time that all processes together used."""
        return self.observations.cores_used(self.steps.began_s, self.steps.ended_s) / cores()

    @property
    def hinders(self) -> bool:
        """Whether the workers take cores away from the training."""
        return self.hindered_ms(self.measurement.headroom) > 0 and self.cores_used > MIN_CORES_USED

    @property
    def matters(self) -> bool:
        """Whether the training waits for its data, or is hindered by the workers."""
        return self.loader is not None and (self.share >= MIN_SHARE_OF_STEP or self.hinders)


def other_workers(loading: Loading) -> list[int]:
    """Return the numbers of workers that are worth a trial."""
    workers, idle = loading.workers, loading.cores_used < MAX_CORES_WAITING
    if not loading.matters or loading.loader is None:
        return []
    repeats = loading.observations.repeats(loading.loader)
    if not workers and repeats:
        return [1]
    if not workers:
        most = max(1, min(int(cores()), MAX_WORKERS))
        return [most, 2 * most] if idle else [most, 1]
    found = [workers] * bool(loading.restarts or loading.hinders)
    if loading.busy_share >= MIN_BUSY and (idle or 2 * workers <= cores()) and not repeats:
        found.append(2 * workers)
    if loading.hinders:
        found.append(1)
    if loading.hinders or loading.is_moving:
        found.append(0)
    return list(dict.fromkeys(each for each in found if each <= max(MAX_WORKERS, workers)))


def cores() -> float:
    """Return the number of cores whose time this process may use."""
    return min(usable_cores(), core_quota() or usable_cores())


def weight(samples: list[Sample]) -> float:
    """Return the seconds that these samples stand for."""
    return sum(each.weight_s for each in samples)


def is_longer(one: MeasuredSteps, other: MeasuredSteps) -> bool:
    """Return whether computing takes longer in the first steps than in the others, as if workers hinder it."""
    return one.ms_in(*COMPUTING) > MIN_HINDRANCE * other.ms_in(*COMPUTING)


def starts_workers(stack: tuple[Frame, ...]) -> bool:
    """Return whether a thread starts workers, or ends them."""
    return any(frame.path.endswith(LOADER_PATH) and frame.name in STARTS_OR_ENDS_WORKERS for frame in stack)


def _loads(stack: tuple[Frame, ...]) -> bool:
    return any(frame.path.endswith(FETCH_PATH) for frame in stack)


def _below_fetch(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames that torch called to load a batch."""
    last = max((at for at, frame in enumerate(stack) if frame.path.endswith(FETCH_PATH)), default=-1)
    return stack[last + 1 :]
