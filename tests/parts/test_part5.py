"""Part 5 tells a cache on disk from what only looks like one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from workshop.course.checks import config_of, contest_of
from workshop.judge.bench import Bench
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import find_part

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
PART = find_part("part5")


class Raced(Exception):
    """The check has come as far as the race."""


class BenchWithoutRace(Bench):
    """Everything but the race, whose outcome depends on the machine."""

    def race(self, *notes: str) -> Verdict:
        raise Raced(*notes)


@pytest.fixture
def check(data: Path) -> Iterator[Callable[[Path], Verdict]]:
    """Judge a script by part 5, with few items that are not very slow."""
    config = replace(config_of(PART, None), batch_size=4, max_items=11, wasted_time=0.02)
    with ExitStack() as stack:
        yield lambda script: PART.check(
            stack.enter_context(BenchWithoutRace(contest_of(PART, script, config, data, "cpu"), print))
        )


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("cache_in_memory", "a second run read 11 of 11 photos slowly again"),
        ("epoch_keyed_cache", "sees the very pictures of the first, with the same augmentations"),
    ],
)
def test_what_is_no_cache_yet(script: str, says: str, check: Callable[[Path], Verdict]) -> None:
    verdict = check(TESTS / "unfinished" / f"{script}.py")
    assert verdict.outcome is Outcome.NOT_YET
    assert says in verdict.reasons[0]


def test_a_cache_on_disk_is_raced(check: Callable[[Path], Verdict]) -> None:
    with pytest.raises(Raced, match="the first epoch, on an empty cache, ran at"):
        check(TESTS / "honest" / "lmdb_cache.py")
