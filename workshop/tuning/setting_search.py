"""The search for the best settings of a DataLoader: which are tried next, and which are taken; it runs nothing."""

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from workshop.diagnosis.findings import MIN_GAIN
from workshop.probe.loader_settings import LoaderSettings
from workshop.tuning.tried_settings import WORTH, Standing, TriedSettings
from workshop.tuning.tuning_result import AdviceKind, AdviceReason

CLIMBS = 1.1
"""A factor, at least: twice as many workers bring something if a step takes longer by it without them."""

RIVAL = 1.15
"""A factor, at most: cheaper settings that seem slower by it are measured again, and any that seem faster by it."""

USELESS_STEPS = 2
"""Times in a row that the number of workers is doubled or halved without a gain; once, where no core is idle."""

MAX_WORKERS = 64


class Choice(NamedTuple):
    """Values of a setting that are tried beside the best of all others, one after the other as long as each helps."""

    setting: str
    values: tuple[Any, ...]
    may_help: Callable[["SettingSearch", LoaderSettings], bool]
    """Whether settings with the next value are worth a trial."""


CHOICES = (
    Choice(
        "prefetch_factor", (4, 8), lambda search, more: not search.reached and more.ahead > search.best.settings.ahead
    ),
    Choice("pin_memory", (True,), lambda search, _: search.pins),
)
"""What is tried once the number of workers is known, in this order."""


@dataclass
class SettingSearch(TriedSettings):
    """Looks for the settings with which a step takes the least time. Of equally good ones, it takes the cheapest.

    Whoever leads it goes through `trials`, and calls `add` or `fail` for each before it asks for the next.
    """

    pins: bool = False
    """Whether the batches go to a GPU, and pinned memory may help."""
    threads: int = 0
    """The number of threads of an operation in the training process; 0 to leave it as it is."""
    start_methods: tuple[str, ...] = ("fork", "spawn")
    """Ways to start workers, for datasets that cannot be loaded in workers of the present way."""
    max_workers: int = MAX_WORKERS
    cores: float = math.inf
    """The number of cores that the script may use."""
    why_not: Callable[[LoaderSettings], str] = lambda _: ""
    """Says why settings would not fit; empty if they do."""

    def trials(self) -> Iterator[LoaderSettings]:
        """Yield the settings to be tried next, until it is clear which are taken."""
        yield from self._try(self.present)
        yield from self._try(replace(self.present, workers=0))  # nothing has to be handed over
        yield from self._climb()
        if self.best.settings.workers <= self.present.workers and self.present.workers:
            yield from self._descend()
        yield from self._between()
        for choice in CHOICES:
            yield from self._choose(choice)
        yield from self._fewer_threads()
        yield from self._in_turns()

    def reason(self, interrupted: bool) -> AdviceReason:
        """Return why settings are taken, or none, or why it is not known.

        Settings that may be faster are named if the interval of their speedup, taken by itself, has no slowdown in it.
        """
        present = self.of(self.present)
        if not present.blocks_ms:
            return AdviceReason(AdviceKind.NOTHING_MEASURED, cause=present.why_not or "nothing was tried to the end")
        if taken := self.taken:
            return AdviceReason(AdviceKind.FASTER, taken.settings, self.gain(taken))
        chosen = self._cheapest(self.standings)
        if chosen.settings == self.present or self.gain(chosen) < MIN_GAIN:
            return AdviceReason(AdviceKind.NOT_YET_FASTER if interrupted else AdviceKind.NOT_FASTER)
        likely = [one for one in self.standings if self.gain(one) >= MIN_GAIN and self._is_real(self.baseline, one, 1)]
        if not likely:
            return AdviceReason(AdviceKind.TOO_NOISY)
        chosen, slower = self._cheapest(likely), self.slows_by()
        kind = AdviceKind.MAYBE_OTHERS if slower > 1 else AdviceKind.MAYBE_NOISE
        return AdviceReason(kind, chosen.settings, self.gain(chosen), slower)

    @property
    def _with_workers(self) -> list[LoaderSettings]:
        return [tried.settings for tried in self.measured if tried.settings.workers]

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
            is_full = self.of(tried).busy_cores >= 0.9 * self.cores  # more workers can hardly load more
            if useless >= (1 if is_full else USELESS_STEPS):
                return

    def _try_to_start(self, settings: LoaderSettings) -> Generator[LoaderSettings, None, LoaderSettings]:
        """Try settings, and other ways to start workers if none has loaded yet; return the settings tried last."""
        yield from self._try(settings)
        if self.of(settings).why_not and not self._with_workers:
            for method in (method for method in self.start_methods if method != self.present.start_method):
                settings = replace(settings, start_method=method)
                yield from self._try(settings)
                if self.of(settings).known:
                    break
        return settings

    def _fewest_at_first(self) -> int:
        """A power of two, to begin with where there are no workers: so slow a loading needs more than a few.

        It is a quarter of those that would do if they did not get into each other's way.
        """
        would_do = min(self.baseline.ms / max(self.ceiling_ms, 1e-3), float(self.max_workers))
        workers = 1 << max(0, int(would_do / 4).bit_length() - 1)
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
        """Whether a step takes a quarter longer than with the best, for certain: then no more workers are tried."""
        standing = self._standing(self.of(settings), persistent=True)
        return standing.ms > 1.25 * self.best.ms and self._is_real(self.best, standing)

    def _between(self) -> Iterator[LoaderSettings]:
        """Try the numbers between the best one and its neighbours; only the smaller one if there is no more to gain."""
        best = self.best
        numbers = sorted({tried.settings.workers for tried in self.measured})
        if best.settings.workers not in numbers:
            return
        at, workers = numbers.index(best.settings.workers), best.settings.workers
        fewer = [(workers + numbers[at - 1]) // 2] if at else []
        more = [(workers + numbers[at + 1] + 1) // 2] if at + 1 < len(numbers) and not self.reached else []
        for number in [*fewer, *more]:
            if number not in numbers:
                yield from self._try(replace(best.settings, workers=number))

    def _choose(self, choice: Choice) -> Iterator[LoaderSettings]:
        """Try the values of a setting, as long as they help."""
        for value in choice.values:
            best = self.best
            more = replace(best.settings, **{choice.setting: value})
            if choice.may_help(self, more) and not (yield from self._helps(best.ms, more)):
                return

    def _fewer_threads(self) -> Iterator[LoaderSettings]:
        """Leave cores to the workers: halve the threads of the training process, then double the workers once more.

        Workers may seem slow only because the threads of the training process are in their way.
        """
        threads = self.threads
        while not self.reached and (threads := threads // 2):
            if not self._with_workers:
                return
            fastest = min(self._with_workers, key=self._ms)
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

    def _in_turns(self, times: int = 4) -> Iterator[LoaderSettings]:
        """Measure those that matter again, in turns, until the noise rule tells them apart, or so many times.

        A setting whose workers were kept in the trial is the same trial as one whose workers were not.
        """
        for number in range(times):
            again = self._unsettled(first=number == 0)
            if not again:
                return
            yield from again

    def _unsettled(self, first: bool) -> list[LoaderSettings]:
        """The settings that decide what is taken, if it is not certain; the `first` time in any case."""
        best, baseline, found = self.best, self.baseline, dict[LoaderSettings, None]()
        nearly = [one for one in self.standings if one.ms < RIVAL * best.ms and one.settings != self.present]
        cheaper = [one for one in nearly if one.settings.cost < best.settings.cost]
        rival = min(cheaper, key=lambda one: one.settings.cost, default=None)
        if rival and (first or not self._is_settled(rival, best, WORTH)):
            found |= dict.fromkeys([rival.settings, best.settings])
        chosen = self._cheapest(self.standings)
        hardly = baseline.ms < RIVAL * self.slows_by() * chosen.ms
        doubtful = first or hardly or not self._is_real(baseline, chosen)
        too_little = baseline.ms < MIN_GAIN * chosen.ms and self._is_settled(baseline, chosen, MIN_GAIN)
        if chosen.settings != self.present and doubtful and not too_little:
            found |= dict.fromkeys([chosen.settings, self.present])
        return list(found)

    def _is_settled(self, slower: Standing, faster: Standing, factor: float) -> bool:
        """Whether it is certain on which side of a factor the ratio of two is."""
        slowed_ms = tuple(factor * block_ms for block_ms in faster.blocks_ms)
        return self._is_real(replace(faster, blocks_ms=slowed_ms), slower)
