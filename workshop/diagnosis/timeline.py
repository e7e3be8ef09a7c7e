"""The steps of a training, with what its thread did in each."""

import linecache
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.user_lines import HotLine, Path, hottest, trunk_of
from workshop.noise import Floats
from workshop.probe.observations import Role
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame
from workshop.runs.measured_steps import MeasuredSteps

ENVIRONMENTS = re.compile(
    r"(^|/)(gym|gymnasium|gymnax|envpool|pettingzoo|dm_control|dm_env|ale_py|procgen|minigrid|brax)/"
)
"""The folders of libraries with environments of reinforcement learning."""

STEPS_ENVIRONMENT = re.compile(r"\benv\w*(\[\w+\])?\.(step|reset)\(", re.IGNORECASE)
"""A line that acts in an environment."""

EVALUATES = re.compile(r"(^|\W|_)(eval|valid|test)", re.IGNORECASE)
"""A line or a function that acts to evaluate: work whose result the training never uses."""


@dataclass(frozen=True)
class StepSample:
    """A sample of the thread that trains."""

    step: int
    """The number of the step, from 0."""
    phase: str
    path: Path
    """The frames of user code, outermost first."""
    is_not_torch: bool
    """Whether the innermost frame is user code, or of another library than torch."""
    acts: bool
    """Whether it acts in an environment of reinforcement learning."""
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
        """The samples of the training's thread, with their steps."""
        observations, steps = self.measurement.observations, self.steps
        ends = steps.ends_s
        found = []
        for each in observations.of(Role.TRAINING, steps.began_s, steps.ended_s):
            step = min(int(np.searchsorted(ends, each.time_s)), len(ends) - 1)
            leaf = each.stack[-1].path if each.stack else ""
            is_not_torch = "/torch/" not in leaf
            frames = observations.user_frames(each.stack)
            found.append(StepSample(step, each.phase, frames, is_not_torch, _acts(each.stack, frames), each.weight_s))
        return found

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
        return trunk_of(each.path for each in self.samples if each.phase in (Phase.BACKWARD, Phase.OPTIMIZER))

    def trains(self, line: HotLine) -> bool:
        """Return whether a line has a library train: backward passes and optimizer steps come from this one line."""
        phases = {each.phase for each in self.samples if each.path == line.path}
        return phases >= {Phase.BACKWARD, Phase.OPTIMIZER}

    @cached_property
    def differentiated(self) -> set[Frame]:
        """The lines of user code that have made what a backward pass went through."""
        observations = self.measurement.observations
        return {
            frame
            for each in observations.backward_passes
            for seconds, _, stack in each.parts
            if seconds > 0
            for frame in observations.user_frames_of(stack)[-1:]
        }

    def computes(self, sample: StepSample) -> bool:
        """Return whether this is the computing of a model whose methods the script calls by their names."""
        in_model = any(frame.name == "forward" for frame in sample.path)
        return sample.phase == Phase.OTHER and (in_model or bool(self.differentiated.intersection(sample.path[-1:])))

    def hottest(self, samples: list[StepSample]) -> HotLine | None:
        """Return the line that most of the time of some samples goes into."""
        return hottest(((each.path, each.weight_s) for each in samples), self.trunk)

    def share(self, seconds: float) -> float:
        """Return the share of some seconds in the time of all steps."""
        return seconds / sum(self.steps.durations_s)


def _acts(stack: Path, frames: Path) -> bool:
    """Return whether a stack acts in an environment, to learn from what comes of it."""
    lines = [linecache.getline(frame.path, frame.line or 0) for frame in frames]
    steps = [text for text in lines if STEPS_ENVIRONMENT.search(text)]
    if any(EVALUATES.search(text) for text in (*steps, *(frame.name for frame in frames))):
        return False
    return bool(steps) or any(ENVIRONMENTS.search(frame.path) for frame in stack)
