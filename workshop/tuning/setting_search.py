"""The search for the best settings of a DataLoader: which are tried next, and which are taken; it runs nothing."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from workshop import noise
from workshop.probe.loader_settings import LoaderSettings
from workshop.tuning.standing import Standing
from workshop.tuning.tried_setting import TriedSetting

MIN_GAIN = 1.05
"""A smaller speedup is not worth an edit."""

WORTH = 1.02
"""More workers are worth their memory if a step takes longer by this factor with fewer."""

REACHED = 0.97
"""Settings that reach this share of the rate with batches from memory leave nothing worth a search."""

CLEARLY_WORSE = 1.25
"""Nothing is looked for beyond a number of workers with which a step takes, for certain, longer by this factor."""

USELESS_STEPS = 2
"""Twice as many workers, this many times in a row without a gain, end the search; once, where no core is idle."""

CLIMBS = 1.1
"""Twice as many workers bring something if a step takes longer by this factor without; less may be noise."""

NO_CORE_IDLE = 0.9
"""No core is idle if the cores are busy for this share of the time: more workers can hardly load more."""

RIVAL = 1.15
"""Cheaper settings that seem slower by less than this factor are measured again."""

NO_WORSE = 1.03
"""Settings that seem slower by less than this factor, which may be noise, are taken if they are cheaper."""

AT_FIRST = 4
"""The first number of workers that is tried is this part of what would do if they did not get into each other's way."""

LONG_START = 0.02
"""Workers are kept from epoch to epoch if starting them takes more than this share of an epoch."""

PREFETCH_FACTORS = (4, 8)
MAX_WORKERS = 64
ROUNDS = 4
"""In the end, the settings that matter are measured again in turns, at most this many times."""


@dataclass
class SettingSearch:
    """Looks for the settings with which a step takes the least time. Of equally good ones, it takes the cheapest.

    Whoever leads it goes through `trials`, and calls `add` or `fail` for each before it asks for the next.
    """

    present: LoaderSettings
    ceiling_ms: float
    """What a step takes with batches from memory: no settings can do better."""
    epoch_steps: int | None = None
    """The number of steps in an epoch; None if it is not known, or endless."""
    keeps: bool = True
    """Whether workers can be kept from epoch to epoch."""
    batches: float = 1.0
    """The number of batches in a step."""
    pins: bool = False
    """Whether the batches go to a GPU, and pinned memory may help."""
    threads: int = 0
    """The number of threads of an operation in the training process; 0 to leave it as it is."""
    start_methods: tuple[str, ...] = ()
    """Other ways to start workers, for datasets that cannot be loaded in workers of the present way."""
    max_workers: int = MAX_WORKERS
    cores: float = math.inf
    """The number of cores that the script may use."""
    why_not: Callable[[LoaderSettings], str] = lambda _: ""
    """Says why settings would not fit; empty if they do."""
    slows_by: Callable[[], float] = lambda: 1.0
    """Says how many times longer other programs may have made a step so far; 1 on a quiet machine."""
    tried: dict[LoaderSettings, TriedSetting] = field(default_factory=dict)

    def of(self, settings: LoaderSettings) -> TriedSetting:
        """Return what is known of settings."""
        key = replace(settings, persistent=False)
        if not key.workers:
            key = replace(key, prefetch_factor=LoaderSettings.prefetch_factor, start_method="")
        return self.tried.setdefault(key, TriedSetting(key))

    def add(self, settings: LoaderSettings, blocks_ms: Sequence[float]) -> None:
        """Note what steps took."""
        self.of(settings).blocks_ms += blocks_ms

    def fail(self, settings: LoaderSettings, why: str) -> None:
        """Note that settings cannot be taken."""
        self.of(settings).why_not = why

    def trials(self) -> Iterator[LoaderSettings]:
        """Yield the settings to be tried next, until it is clear which are taken."""
        yield from self._try(self.present)
        yield from self._try(replace(self.present, workers=0))  # nothing has to be handed over
        yield from self._climb()
        if self.best.settings.workers <= self.present.workers and self.present.workers:
            yield from self._descend()
        yield from self._between()
        yield from self._prefetch()
        if self.pins and not self.present.pin_memory:
            yield from self._try(replace(self.best.settings, pin_memory=True))
        yield from self._fewer_threads()
        yield from self._in_turns()

    # What is known

    @property
    def standings(self) -> list[Standing]:
        """What can be taken, the present settings included."""
        found = [self._standing(each, self._kept(each)) for each in self.tried.values() if each.known]
        now = self.of(self.present)
        if now.blocks_ms and all(each.settings != self.present for each in found):
            found.append(self._standing(now, self.present.persistent))
        return found

    @property
    def now(self) -> Standing:
        """The present settings."""
        return self._standing(self.of(self.present), self.present.persistent)

    @property
    def best(self) -> Standing:
        """The fastest."""
        return min(self.standings, key=lambda each: each.ms, default=Standing(self.present, (float("inf"),)))

    @property
    def chosen(self) -> Standing:
        """The cheapest of those that are about as fast as the best."""
        return self._cheapest(self.standings)

    @property
    def taken(self) -> Standing | None:
        """The settings to take; None to leave it.

        Of those that are faster than the present ones, for certain and by enough to be worth it, they are the cheapest
        that are about as fast as the fastest.
        """
        if not self.of(self.present).blocks_ms:
            return None
        better = [each for each in self.standings if self._is_worth(each)]
        return self._cheapest(better) if better else None

    def _is_worth(self, standing: Standing) -> bool:
        """Whether settings are faster than the present ones, for certain and by enough.

        Beside other programs, the present ones are taken to be as fast as they were at their best, and as they would
        be without what these slow: they may have been slowed alone, and many workers get a larger share of the cores.
        """
        now, slows_by = self.now, self.slows_by()
        now_ms = now.ms if slows_by == 1 else min(now.ms / slows_by, *now.blocks_ms)
        return now_ms >= MIN_GAIN * standing.ms and self._is_real(now, standing)

    @property
    def reached(self) -> bool:
        """Whether the best settings leave nothing worth looking for."""
        return self.ceiling_ms >= REACHED * self.best.ms

    def _cheapest(self, standings: Sequence[Standing]) -> Standing:
        """The cheapest of those that are about as fast as the fastest, or may be."""
        best = min(standings, key=lambda each: each.ms)
        alike = [
            each
            for each in standings
            if each.ms <= WORTH * best.ms or (each.ms <= NO_WORSE * best.ms and not self._is_real(best, each))
        ]
        return min(alike, key=lambda each: each.order)

    def gain(self, standing: Standing) -> float:
        """Return the speedup over the present settings."""
        return self.now.ms / standing.ms

    def is_slower(self, tried: TriedSetting, standing: Standing) -> bool:
        """Return whether settings are slower than others, for certain."""
        one = self._standing(tried, self._kept(tried))
        return one.ms > standing.ms and self._is_real(standing, one)

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
            each.ms * each.settings.workers if each.settings.workers else max(0.0, each.ms - self.ceiling_ms)
            for each in self.tried.values()
            if each.known
        ]
        return min(steps_ms, default=0.0) / self.batches

    def _kept(self, tried: TriedSetting) -> bool:
        if not tried.settings.workers or (self.present.persistent and self.present.workers):
            return bool(tried.settings.workers)
        start_ms = self._begin_ms(tried, kept=False) - self._begin_ms(tried, kept=True)
        return self.keeps and start_ms > LONG_START * tried.ms

    def _standing(self, tried: TriedSetting, persistent: bool) -> Standing:
        more_ms = self._begin_ms(tried, persistent)
        settings = self.present if tried is self.of(self.present) else tried.settings
        return Standing(
            replace(settings, persistent=persistent), tuple(each_ms + more_ms for each_ms in tried.blocks_ms)
        )

    def _is_real(self, one: Standing, other: Standing) -> bool:
        return bool(noise.change(one.blocks_ms, other.blocks_ms).is_real(max(1, len(self.tried) - 1)))

    def _ms(self, settings: LoaderSettings) -> float:
        """What a step takes with settings that are known, the beginning of each epoch included."""
        tried = self.of(settings)
        return self._standing(tried, self._kept(tried)).ms

    # What is tried

    def _try(self, settings: LoaderSettings) -> Iterator[LoaderSettings]:
        known = self.of(settings)
        if known.blocks_ms or known.why_not:
            return
        if why := self.why_not(settings):
            self.fail(settings, why)
            return
        yield settings

    def _climb(self) -> Iterator[LoaderSettings]:
        """Double the workers until this brings nothing."""
        useless, method, before_ms = 0, self.present.start_method, self.best.ms
        if not (workers := self.present.workers) and self.of(self.present).known:
            workers = self._fewest_at_first() // 2
        while not self.reached and (workers := 2 * workers or 1) <= self.max_workers:
            tried = yield from self._try_to_start(replace(self.present, workers=workers, start_method=method))
            method = tried.start_method
            if not self.of(tried).known or self._is_clearly_worse(tried):
                return
            if self._ms(tried) * CLIMBS < before_ms:
                useless, before_ms = 0, self._ms(tried)
            else:
                useless += 1
            if useless >= (1 if self.of(tried).busy_cores >= NO_CORE_IDLE * self.cores else USELESS_STEPS):
                return

    def _try_to_start(self, settings: LoaderSettings) -> Generator[LoaderSettings, None, LoaderSettings]:
        """Try settings, and other ways to start workers if none has loaded yet; return the settings tried last."""
        yield from self._try(settings)
        if self.of(settings).why_not and not any(each.known for each in self.tried.values() if each.settings.workers):
            for method in self.start_methods:
                settings = replace(settings, start_method=method)
                yield from self._try(settings)
                if self.of(settings).known:
                    break
        return settings

    def _fewest_at_first(self) -> int:
        """A power of two, to begin with where there are no workers: so slow a loading needs more than a few."""
        would_do = min(self.now.ms / max(self.ceiling_ms, 1e-3), float(self.max_workers))
        workers = 1 << max(0, int(would_do / AT_FIRST).bit_length() - 1)
        while workers > 1 and self.why_not(replace(self.present, workers=workers)):
            workers //= 2
        return workers

    def _descend(self) -> Iterator[LoaderSettings]:
        """Halve the workers until this brings nothing."""
        workers, useless = self.present.workers, 0
        while useless < USELESS_STEPS and (workers := workers // 2):
            before_ms, tried = self.best.ms, replace(self.present, workers=workers)
            yield from self._try(tried)
            if not self.of(tried).known or self._is_clearly_worse(tried):
                break
            useless = 0 if self._ms(tried) * WORTH < before_ms else useless + 1

    def _is_clearly_worse(self, settings: LoaderSettings) -> bool:
        standing = self._standing(self.of(settings), persistent=True)
        return standing.ms > CLEARLY_WORSE * self.best.ms and self._is_real(self.best, standing)

    def _between(self) -> Iterator[LoaderSettings]:
        """Try the numbers between the best one and its neighbours; only the smaller one if there is no more to gain."""
        best = self.best
        numbers = sorted({each.settings.workers for each in self.tried.values() if each.known})
        if best.settings.workers not in numbers:
            return
        at, workers = numbers.index(best.settings.workers), best.settings.workers
        fewer = [(workers + numbers[at - 1]) // 2] if at else []
        more = [(workers + numbers[at + 1] + 1) // 2] if at + 1 < len(numbers) and not self.reached else []
        for number in [*fewer, *more]:
            if number not in numbers:
                yield from self._try(replace(best.settings, workers=number))

    def _prefetch(self) -> Iterator[LoaderSettings]:
        """Have each worker load more batches ahead, as long as that helps."""
        for factor in PREFETCH_FACTORS:
            best = self.best
            if self.reached or not best.settings.workers or factor <= best.settings.prefetch_factor:
                continue
            if not (yield from self._helps(best.ms, replace(best.settings, prefetch_factor=factor))):
                return

    def _fewer_threads(self) -> Iterator[LoaderSettings]:
        """Leave cores to the workers: halve the threads of the training process, then double the workers once more.

        Workers may seem slow only because the threads of the training process are in their way.
        """
        threads = self.threads
        while not self.reached and (threads := threads // 2):
            with_workers = [each for each in self.tried.values() if each.known and each.settings.workers]
            if not with_workers:
                return
            fastest = min((each.settings for each in with_workers), key=self._ms)
            if not (yield from self._helps(self._ms(fastest), replace(fastest, threads=threads))):
                break
        while (best := self.best).settings.threads and not self.reached:
            more = replace(best.settings, workers=2 * best.settings.workers)
            if more.workers > self.max_workers or not (yield from self._helps(best.ms, more)):
                return

    def _helps(self, before_ms: float, settings: LoaderSettings) -> Generator[LoaderSettings, None, bool]:
        """Try settings, and return whether a step takes less time than before, and by enough."""
        yield from self._try(settings)
        return self.of(settings).known and self._ms(settings) * WORTH <= before_ms

    def _in_turns(self) -> Iterator[LoaderSettings]:
        """Measure those that matter again, in turns, until the noise rule tells them apart.

        A setting whose workers were kept in the trial is the same trial as one whose workers were not.
        """
        for number in range(ROUNDS):
            again = self._unsettled(first=number == 0)
            if not again:
                return
            yield from again

    def _unsettled(self, first: bool) -> list[LoaderSettings]:
        """The settings that decide what is taken, if it is not certain; the `first` time in any case."""
        best, now, found = self.best, self.now, dict[LoaderSettings, None]()
        for rival in sorted(self.standings, key=lambda each: each.order):
            if rival.order < best.order and rival.ms < RIVAL * best.ms and rival.settings != self.present:
                if first or not self._is_settled(rival, best, WORTH):
                    found |= dict.fromkeys([rival.settings, best.settings])
                break
        chosen = self.chosen
        hardly = now.ms < RIVAL * self.slows_by() * chosen.ms
        doubtful = first or hardly or not self._is_real(now, chosen)
        too_little = now.ms < MIN_GAIN * chosen.ms and self._is_settled(now, chosen, MIN_GAIN)
        if chosen.settings != self.present and doubtful and not too_little:
            found |= dict.fromkeys([chosen.settings, self.present])
        return list(found)

    def _is_settled(self, slower: Standing, faster: Standing, factor: float) -> bool:
        """Whether it is certain on which side of a factor the ratio of two is."""
        return self._is_real(faster.slowed(factor), slower)
