"""Races whose pairs take made-up times, so that nothing depends on how busy this machine is."""

import pytest

from workshop.judge import laps
from workshop.judge.race import RaceResult, race


def race_of(ratio: float, patch: pytest.MonkeyPatch) -> None:
    """Have each race of two scripts decided by pairs of this ratio; both really train what they would."""

    def made_race(before, after, *options) -> RaceResult:  # type: ignore[no-untyped-def]
        return race(lambda: (before(), ratio)[1], lambda: (after(), 1.0)[1], *options)

    patch.setattr(laps, "race", made_race)
