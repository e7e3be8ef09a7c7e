"""Races whose pairs take made-up times, so that nothing depends on how busy this machine is."""

from collections.abc import Callable

import pytest

from workshop.judge import laps
from workshop.judge.race import RaceResult, race


def race_of(ratio: float, patch: pytest.MonkeyPatch) -> None:
    """Have each race of two scripts decided by pairs of this ratio; both really train what they would."""

    def in_made_time(train: Callable[[], object], seconds: float) -> Callable[[], float]:
        def timed() -> float:
            train()
            return seconds

        return timed

    def made_race(before, after, *options) -> RaceResult:  # type: ignore[no-untyped-def]
        return race(in_made_time(before, ratio), in_made_time(after, 1.0), *options)

    patch.setattr(laps, "race", made_race)
