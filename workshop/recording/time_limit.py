"""The seconds that a recorded run gets: they count from its first training step."""

import time
from collections.abc import Mapping
from pathlib import Path

from workshop.probe.first_step import STEP, TORCH
from workshop.probe.settings import FIRST_STEP_VARIABLE
from workshop.runs.script import Say

TORCH_PATIENCE_S = 20.0
"""Seconds, at most, until a run has loaded torch: after that, it is taken for one without."""

STEP_PATIENCE_S = 60.0
"""Seconds, at most, from the loading of torch to the first step: after that, no step is expected to be seen."""


class TimeLimit:
    """Tells when the seconds of a run are over, None for no end; says from when they count if no step is seen."""

    def __init__(self, seconds: float | None, folder: Path, say: Say) -> None:
        self._seconds, self._folder, self._say = seconds, folder, say
        self._started_s = time.monotonic()
        self._torch_s: float | None = None
        self._begin_s: float | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that ask the processes of the run to note their first step."""
        return {} if self._seconds is None else {FIRST_STEP_VARIABLE: str(self._folder)}

    def is_over(self) -> bool:
        """Return whether the time of the run is over."""
        if self._seconds is None:
            return False
        now_s = time.monotonic()
        if self._begin_s is None:
            self._begin_s = self._begin(now_s)
        return self._begin_s is not None and now_s - self._begin_s >= self._seconds

    def _begin(self, now_s: float) -> float | None:
        """From when on the seconds count, if that is known."""
        if (self._folder / STEP).exists():
            return now_s
        if self._torch_s is None and (self._folder / TORCH).exists():
            self._torch_s = now_s
        if self._torch_s is not None and now_s - self._torch_s >= STEP_PATIENCE_S:
            self._say(f"\nNo training step was seen within {STEP_PATIENCE_S:.0f} s; the {self._seconds:g} s begin now.")
            return now_s
        if self._torch_s is None and now_s - self._started_s >= TORCH_PATIENCE_S:
            self._say(f"\ntorch was not loaded within {TORCH_PATIENCE_S:.0f} s; the time counts from the start.")
            return self._started_s
        return None
