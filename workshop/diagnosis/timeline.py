"""The steps of a training, with what its thread did in each."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.user_lines import HotLine, Path, Place, hottest, main_lines, place_of, trunk_of
from workshop.noise import Floats
from workshop.probe.internals import FETCH_PATH
from workshop.probe.observations import Role
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame
from workshop.runs.measured_steps import MeasuredSteps

LIBRARY: dict[str, str] = {
    Phase.BACKWARD: "/torch/autograd/",
    Phase.OPTIMIZER: "/torch/optim/",
    Phase.DATA_WAIT: "/torch/utils/data/",
}
"""The folder of what a phase is spent in by itself; the script's own lines may be called in it, as by hooks."""

STRAY = 0.01
"""Share of the time of backward passes and optimizers, at most, that says nothing of a line: as of samples that were
taken as these just ended."""

UNLIKE_TRACED = (Phase.DATA_WAIT, Phase.BACKWARD, Phase.VALIDATION)
"""Phases whose samples are not compared with traced steps: these take batches from memory, tell the thread of a
backward pass from the one that waits for it, and may have no validation."""


@dataclass(frozen=True)
class StepSample:
    """A sample of the thread that trains."""

    step: int
    """The number of the step, from 0."""
    phase: str
    path: Path
    """The frames of user code, outermost first."""
    is_own: bool
    """Whether it is the work of the script's own line, and not of a backward pass, an optimizer, or a DataLoader."""
    weight_s: float


@dataclass(frozen=True)
class Timeline:
    """The steps of a training with what its thread did in each."""

    measurement: Measurement

    @property
    def steps(self) -> MeasuredSteps:
        """The steps in which a wait for the GPU counts to its phase, and not to the line that waits."""
        return self.measurement.table

    @cached_property
    def samples(self) -> list[StepSample]:
        """The samples of the training's thread, with their steps; without the time in which it waits for a GPU."""
        left = {place: 1.0 - self.waits_s[place] / self._sampled_s[place] for place in self.waits_s}
        return [replace(each, weight_s=each.weight_s * left.get(_place(each), 1.0)) for each in self._sampled]

    @cached_property
    def _sampled(self) -> list[StepSample]:
        observations, steps = self.measurement.observations, self.steps
        ends = steps.ends_s
        found = []
        for each in observations.of(Role.TRAINING, steps.began_s, steps.ended_s):
            step = min(int(np.searchsorted(ends, each.time_s)), len(ends) - 1)
            frames = observations.user_frames(each.stack)
            is_own = bool(frames) and _is_called_in(each.phase, each.stack, frames[-1])
            found.append(StepSample(step, each.phase, frames, is_own, each.weight_s))
        lines = main_lines((each.path, each.weight_s) for each in found)
        return [replace(each, path=tuple(lines[frame] for frame in each.path)) for each in found]

    @cached_property
    def _sampled_s(self) -> Counter[Place]:
        """The seconds of a step that were sampled in each line, of phases that are in traced steps as they are here."""
        found = Counter[Place]()
        for each in self._sampled:
            found[_place(each)] += each.weight_s / self.steps.count  # type: ignore[assignment]
        return found

    @cached_property
    def waits_s(self) -> dict[Place, float]:
        """The seconds of a step in which the host waits for a GPU in a line that asks it for something.

        They are what was sampled beyond what the host took in traced steps, and no more than what the GPU did there.
        """
        traced = self.measurement.traced if self.measurement.circumstances.device == "cuda" else ()
        host_s, asks = Counter[Place](), set[Place]()
        for part in (each for each in traced if each.phase not in UNLIKE_TRACED):
            host_s[place_of(part.frame)] += part.host_s  # type: ignore[assignment]
            asks.update([place_of(part.frame)] * bool(part.launches or part.results))
        waits_s = {place: self._sampled_s[place] - host_s[place] for place in asks}
        device_s = sum(each.device_s for each in traced)
        return {place: min(seconds, device_s) for place, seconds in waits_s.items() if seconds > 0}

    @cached_property
    def work(self) -> Floats:
        """How much there was to do in each step, 1 for most: steps that call a model more often may take longer.

        So does an episode of reinforcement learning that goes on for longer.
        """
        calls = np.maximum(self.steps.forwards or np.ones(len(self.steps.durations_s)), 1.0)
        return np.asarray(calls / np.median(calls)) if calls.size else calls

    @cached_property
    def trunk(self) -> set[tuple[str, str]]:
        """The functions on the way to the backward pass and the optimizer's step: the loop, and what calls it."""
        return trunk_of(self._of_training)

    @cached_property
    def _of_training(self) -> list[Path]:
        """The ways to the backward pass and the optimizer's step, but for stray ones."""
        weights: Counter[Path] = Counter()
        for each in self.samples:
            if each.phase in (Phase.BACKWARD, Phase.OPTIMIZER) and not each.is_own:
                weights[each.path] += each.weight_s  # type: ignore[assignment]
        return [path for path, weight_s in weights.items() if weight_s > STRAY * weights.total()]

    def trains_within(self, path: str, first: int, last: int) -> bool:
        """Return whether backward passes or optimizer steps come from some lines of a file."""
        return any(each.path == path and first <= (each.line or 0) <= last for way in self._of_training for each in way)

    def trains(self, line: HotLine) -> bool:
        """Return whether a line has a library train: backward passes and optimizer steps come from this one line."""
        phases = {each.phase for each in self.samples if each.path == line.path}
        return phases >= {Phase.BACKWARD, Phase.OPTIMIZER}

    @cached_property
    def differentiated(self) -> set[Frame]:
        """The lines of user code that have made what a backward pass went through.

        A line that has a library train does everything: what it does besides is not told by it.
        """
        observations = self.measurement.observations
        trains = {frame for way in self._of_training for frame in way}
        of_lines: Counter[Frame] = Counter()
        for each in observations.backward_passes:
            for seconds, _, stack in each.parts:
                of_lines.update(dict.fromkeys(observations.user_frames_of(stack)[-1:], seconds))
        return {
            frame for frame, seconds in of_lines.items() if seconds > STRAY * of_lines.total() and frame not in trains
        }

    def computes(self, sample: StepSample) -> bool:
        """Return whether this is the computing of a model whose methods the script calls by their names."""
        in_model = any(frame.name == "forward" for frame in sample.path)
        is_between = sample.phase == Phase.OTHER or (sample.is_own and sample.phase in LIBRARY)
        return is_between and (in_model or bool(self.differentiated.intersection(sample.path[-1:])))

    def hottest(self, samples: list[StepSample]) -> HotLine | None:
        """Return the line that most of the time of some samples goes into."""
        return hottest(((each.path, each.weight_s) for each in samples), self.trunk)

    def share(self, seconds: float) -> float:
        """Return the share of some seconds in the time of all steps."""
        return seconds / sum(self.steps.durations_s)


def _place(sample: StepSample) -> Place:
    is_alike = sample.path and sample.phase not in UNLIKE_TRACED
    return place_of(sample.path[-1]) if is_alike else ("", 0)


def _is_called_in(phase: str, stack: Path, innermost: Frame) -> bool:
    """Return whether a backward pass or an optimizer's step, if it is one, has called the innermost line of the user's.

    It has if it is above that line on the stack, and is not called by it. What makes items is no work of its own, and
    gradients that `torch.autograd.grad` hands to the line are.
    """
    if phase not in LIBRARY:
        return True
    if any(frame.path.endswith(FETCH_PATH) for frame in stack):
        return False
    if any(frame.name == "grad" and frame.path.endswith("/torch/autograd/__init__.py") for frame in stack):
        return True
    at = max(number for number, frame in enumerate(stack) if frame == innermost)
    is_library = [LIBRARY[phase] in frame.path for frame in stack]
    return any(is_library[:at]) and not any(is_library[at:])
