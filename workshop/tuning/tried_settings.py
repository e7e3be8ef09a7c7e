"""The settings of a DataLoader that were tried: what is known of them, where they stand, and which are taken."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Any

import numpy as np

from workshop import noise
from workshop.diagnosis.findings import MIN_GAIN
from workshop.probe.loader_settings import LoaderSettings

WORTH = 1.02
"""A factor, at least: what costs more is worth it if a step takes longer by this factor without, or an epoch does."""

AS_FAST = 1.03
"""A factor, at most: a step that takes longer by it may be as fast, where the noise does not tell them apart."""


class SettingOutcome(StrEnum):
    """What became of settings in the end; `{than}` stands for those that they are told from."""

    NOTHING_YET = ""
    TO_TAKE = "to take"
    AS_IT_IS = "as it is"
    NOT_TRIED = "not tried"
    REFUSED = "{why_not}"
    HARDLY_FASTER = "hardly faster than {than}, and costs more"
    SLOWER = "slower than {than}"
    NOT_FASTER = "not clearly faster than {than}"
    OTHER_WORK = "refused by the judge"
    NOT_PROVEN = "not proven faster"


@dataclass
class TriedSetting:
    """What is known of some settings; whether workers are kept makes no difference within an epoch."""

    settings: LoaderSettings
    blocks_ms: list[float] = field(default_factory=list)
    """The milliseconds of a step within an epoch, the mean of some steps in a row each."""
    samples: float = 0.0
    """The number of samples in a step."""
    first_batch_s: float = 0.0
    """The seconds from the start of the DataLoader to its first batch."""
    memory_bytes: int | None = None
    """What all processes of the script used together; None where nothing was seen."""
    shared_bytes: int = 0
    """The most that batches on their way take of /dev/shm."""
    busy_cores: float = 0.0
    """How many cores were busy meanwhile, on average."""
    why_not: str = ""
    """Why it cannot be taken; empty if it can."""
    became: SettingOutcome = SettingOutcome.NOTHING_YET
    than: LoaderSettings | None = None
    """The settings that it is told from; None for those that the script has."""

    @property
    def known(self) -> bool:
        """Whether it was measured, and can be taken."""
        return bool(self.blocks_ms) and not self.why_not

    @property
    def ms(self) -> float:
        """The mean milliseconds of a step."""
        return float(np.mean(self.blocks_ms))

    @property
    def rate(self) -> float:
        """Samples per second, within an epoch."""
        return 1e3 * self.samples / self.ms

    @property
    def rate_margin(self) -> float:
        """Half the width of the 95 % interval of the rate; not a number if it was not measured twice."""
        return self.rate * noise.margin(self.blocks_ms) / self.ms

    @property
    def outcome(self) -> str:
        """What became of it, in words; empty before."""
        than = self.than.told_from(self.settings) if self.than else SettingOutcome.AS_IT_IS
        return self.became.format(than=than, why_not=self.why_not)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; rates are in samples per second."""
        values = asdict(self) | {"became": self.outcome}
        del values["than"]
        if self.blocks_ms:
            margin = self.rate_margin if len(self.blocks_ms) > 1 else None
            values |= {"samples_per_s": self.rate, "samples_per_s_margin": margin}
        return values


@dataclass(frozen=True)
class Standing:
    """Settings that can be taken, and what a step takes with them, the start of workers for each epoch included."""

    settings: LoaderSettings
    blocks_ms: tuple[float, ...]

    @property
    def ms(self) -> float:
        """The mean milliseconds of a step."""
        return float(np.mean(self.blocks_ms))


@dataclass
class TriedSettings:
    """What is known of the settings that were tried, and which of them are taken."""

    present: LoaderSettings
    ceiling_ms: float
    """What a step takes with batches from memory: no settings can do better."""
    epoch_steps: int | None = None
    """The number of steps in an epoch; None if it is not known, or endless."""
    keeps: bool = True
    """Whether workers can be kept from epoch to epoch."""
    batches: float = 1.0
    """The number of batches in a step."""
    slows_by: Callable[[], float] = lambda: 1.0
    """Says how many times longer other programs may have made a step so far; 1 on a quiet machine."""
    tried: dict[LoaderSettings, TriedSetting] = field(default_factory=dict)

    def of(self, settings: LoaderSettings) -> TriedSetting:
        """Return what is known of settings."""
        key = settings.in_trial
        return self.tried.setdefault(key, TriedSetting(key))

    def add(self, settings: LoaderSettings, blocks_ms: Sequence[float]) -> None:
        """Note what steps took."""
        self.of(settings).blocks_ms += blocks_ms

    def fail(self, settings: LoaderSettings, why: str) -> None:
        """Note that settings cannot be taken."""
        self.of(settings).why_not = why

    @property
    def measured(self) -> list[TriedSetting]:
        """Those that were measured, and can be taken."""
        return [tried for tried in self.tried.values() if tried.known]

    @property
    def standings(self) -> list[Standing]:
        """What can be taken, the present settings included."""
        found = [self._standing(tried) for tried in self.measured]
        if self.of(self.present).blocks_ms and all(standing.settings != self.present for standing in found):
            found.append(self.baseline)
        return found

    @property
    def baseline(self) -> Standing:
        """The present settings."""
        return self._standing(self.of(self.present), self.present.persistent)

    @property
    def best(self) -> Standing:
        """The fastest."""
        return min(self.standings, key=lambda standing: standing.ms, default=Standing(self.present, (inf,)))

    @property
    def taken(self) -> Standing | None:
        """The settings to take; None to leave it.

        Of those that are faster than the present ones, for certain and by enough to be worth it, they are the cheapest
        that are about as fast as the fastest.
        """
        if not self.of(self.present).blocks_ms:
            return None
        better = [standing for standing in self.standings if self._is_worth(standing)]
        return self._cheapest(better) if better else None

    def _is_worth(self, standing: Standing) -> bool:
        """Whether settings are faster than the present ones, for certain and by enough.

        Beside other programs, the present ones are taken to be as fast as they were at their best, and as they would
        be without what these slow: they may have been slowed alone, and many workers get a larger share of the cores.
        """
        baseline, slows_by = self.baseline, self.slows_by()
        least_ms = baseline.ms if slows_by == 1 else min(baseline.ms / slows_by, *baseline.blocks_ms)
        return least_ms >= MIN_GAIN * standing.ms and self._is_real(baseline, standing)

    @property
    def reached(self) -> bool:
        """Whether the best settings leave nothing worth looking for."""
        best_ms = self.best.ms
        return best_ms - self.ceiling_ms <= (AS_FAST - 1) * best_ms

    def _cheapest(self, standings: Sequence[Standing]) -> Standing:
        """The cheapest of those that are about as fast as the fastest, or may be."""
        best = min(standings, key=lambda standing: standing.ms)

        def is_as_fast(standing: Standing) -> bool:
            may_be = standing.ms <= AS_FAST * best.ms and not self._is_real(best, standing)
            return may_be or standing.ms <= WORTH * best.ms

        return min(filter(is_as_fast, standings), key=lambda standing: standing.settings.cost)

    def gain(self, standing: Standing) -> float:
        """Return the speedup over the present settings."""
        return self.baseline.ms / standing.ms

    def outcomes(self) -> tuple[TriedSetting, ...]:
        """Return what was tried, each with what became of it."""
        than = self.taken.settings if self.taken else None
        return tuple(replace(tried, became=self._became(tried), than=than) for tried in self.tried.values())

    def _became(self, tried: TriedSetting) -> SettingOutcome:
        taken, fastest = self.taken, min(self.measured, key=lambda tried: tried.ms, default=None)
        if tried.why_not:
            return SettingOutcome.REFUSED
        if taken and tried is self.of(taken.settings):
            return SettingOutcome.TO_TAKE
        if tried is self.of(self.present):
            return SettingOutcome.AS_IT_IS
        if not tried.known:
            return SettingOutcome.NOT_TRIED
        if taken and tried is fastest:
            return SettingOutcome.HARDLY_FASTER
        standing = self._standing(tried)
        if taken and standing.ms > taken.ms and self._is_real(taken, standing):
            return SettingOutcome.SLOWER
        return SettingOutcome.NOT_FASTER

    def _begin_ms(self, tried: TriedSetting, kept: bool) -> float:
        """What the beginning of each epoch adds to a step.

        All workers load their first batches then, and the training waits for one; if they are not kept, also for their
        start. Trials do not show this, as they go on from epoch to epoch.
        """
        if not (tried.settings.workers and self.epoch_steps):
            return 0.0
        first_ms = 1e3 * tried.first_batch_s
        return (min(first_ms, self._loading_ms()) if kept else first_ms) / self.epoch_steps

    def _loading_ms(self) -> float:
        """What loading a batch takes at most: it is part of the wait for the first one, and not of a start of workers.

        Without workers, it is what batches from memory save; a worker has as long for it as all of them take for a
        batch each.
        """
        steps_ms = [
            tried.ms * tried.settings.workers if tried.settings.workers else max(0.0, tried.ms - self.ceiling_ms)
            for tried in self.measured
        ]
        return min(steps_ms, default=0.0) / self.batches

    def _kept(self, tried: TriedSetting) -> bool:
        """Whether workers are to be kept: they are as it is, or their start takes long."""
        if not tried.settings.workers or (self.present.persistent and self.present.workers):
            return bool(tried.settings.workers)
        start_ms = self._begin_ms(tried, kept=False) - self._begin_ms(tried, kept=True)
        return self.keeps and tried.ms + start_ms > WORTH * tried.ms

    def _standing(self, tried: TriedSetting, persistent: bool | None = None) -> Standing:
        """Where settings stand if their workers are kept, or not; None for what is better."""
        persistent = self._kept(tried) if persistent is None else persistent
        more_ms = self._begin_ms(tried, persistent)
        settings = self.present if tried is self.of(self.present) else tried.settings
        blocks_ms = tuple(block_ms + more_ms for block_ms in tried.blocks_ms)
        return Standing(replace(settings, persistent=persistent), blocks_ms)

    def _is_real(self, one: Standing, other: Standing, compared: int | None = None) -> bool:
        """Whether a difference is none of noise, as one of so many; by default, of all that were tried."""
        return bool(noise.change(one.blocks_ms, other.blocks_ms).is_real(compared or max(1, len(self.tried) - 1)))

    def _ms(self, settings: LoaderSettings) -> float:
        """What a step takes with settings that are known, the beginning of each epoch included."""
        return self._standing(self.of(settings)).ms
