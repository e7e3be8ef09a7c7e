"""Part 5 tells a cache on disk from what only looks like one."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from said import labels

from workshop.course.checks import config_of, contest_of
from workshop.judge.bench import Bench
from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import find_part
from workshop.parts.part5.cache_check import cold_rate, why_not_cached
from workshop.probe.events import PhotoRead, StepTaken
from workshop.probe.noted_step import NotedPass

TESTS = Path(__file__).parents[1]
PART = find_part("part5")


def made_bench(slow: Collection[int], repeats: bool = False) -> Any:
    """A bench where a script has run twice, for two epochs and for one: in some of these all photos were read slowly.

    Each epoch takes two steps of two items, and a second a step; the pictures of the second run may be the first ones.
    """
    steps, reads = [], []
    pictures = torch.rand(3, 4, 3, 8, 8)
    if repeats:
        pictures[2] = pictures[0]
    for epoch, number in ((epoch, number) for epoch in range(3) for number in (0, 1)):
        t, rows = 2.0 * epoch + number, slice(2 * number, 2 * number + 2)
        targets = (2 * number, 2 * number + 1)
        for place, photo in enumerate(targets):
            reads.append(PhotoRead(t + 0.1 + 0.1 * place, 1, 1, f"{photo}.jpg", 0.02 * (epoch in slow)))
        noted = NotedPass.of(pictures[epoch][rows])
        noted.targets = torch.tensor(targets)
        entered = replace(noted.fetch(), t=t + 0.5)
        steps.append(StepTaken(t + 1, 1, 1, (entered,), 1, (0.0,), run_index=epoch // 2))
    ledger = Ledger(reads=reads, steps=steps, loader_starts=[0.0, 2.0, 4.0])
    return SimpleNamespace(ledger=lambda: ledger, contest=SimpleNamespace(items=4, wasted_time_s=0.02), steps=2)


@pytest.mark.parametrize(
    ("slow", "repeats", "says"),
    [
        ((0,), False, ""),
        ((0, 2), False, "what is kept is gone with the process: a second run read 4 of 4 photos slowly again"),
        ((0, 1, 2), False, "nothing is kept: 4 of 4 photos were read slowly again in the second epoch"),
        ((0, 1), True, "the cache is of no use within a run (4 of 4 photos were read slowly again in the second"),
    ],
)
def test_what_a_cache_lacks_is_seen_in_the_slow_reads_of_two_runs(
    slow: Collection[int], repeats: bool, says: str
) -> None:
    found = why_not_cached(made_bench(slow, repeats))
    assert str(found or "").startswith(says)
    assert bool(found) == bool(says)


def test_the_first_epoch_is_timed_from_the_start_of_its_loader() -> None:
    assert cold_rate(made_bench((0,))) == 2.0


class BenchWithoutRace(Bench):
    """A bench that leaves out the race, whose outcome depends on the machine."""

    def race(self, *notes: Reason) -> Verdict:
        return Verdict(self.subject, Outcome.DONE, notes)


@pytest.mark.parametrize(
    ("script", "outcome", "kind"),
    [
        pytest.param("unfinished/cache_in_memory", Outcome.NOT_YET, "gone-with-process", marks=pytest.mark.acceptance),
        pytest.param("unfinished/epoch_keyed_cache", Outcome.NOT_YET, "epoch-in-key", marks=pytest.mark.acceptance),
        pytest.param("honest/lmdb_cache", Outcome.DONE, "empty-cache", marks=pytest.mark.slow),
    ],
)
def test_a_cache_on_disk_and_what_only_looks_like_one(script: str, outcome: Outcome, kind: str, data: Path) -> None:
    config = replace(config_of(PART, None), batch_size=4, max_items=11, wasted_time=0.02)
    contest = contest_of(PART, TESTS / f"{script}.py", config, data, "cpu")
    with BenchWithoutRace(contest, print) as bench:
        verdict = PART.check(bench)
    assert verdict.outcome is outcome
    assert labels(verdict.reasons[:1]) == [f"cache-{kind}"]
