"""Part 5 tells a cache on disk from what only looks like one."""

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


class BenchWithoutRace(Bench):
    """A bench that leaves out the race, whose outcome depends on the machine."""

    def race(self, *notes: str) -> Verdict:
        return Verdict(self.subject, Outcome.DONE, notes)


@pytest.mark.parametrize(
    ("script", "outcome", "says"),
    [
        ("unfinished/cache_in_memory", Outcome.NOT_YET, "a second run read 11 of 11 photos slowly again"),
        ("unfinished/epoch_keyed_cache", Outcome.NOT_YET, "sees the very pictures of the first, with the same aug"),
        ("honest/lmdb_cache", Outcome.DONE, "the first epoch, on an empty cache, ran at"),
    ],
)
def test_a_cache_on_disk_and_what_only_looks_like_one(script: str, outcome: Outcome, says: str, data: Path) -> None:
    config = replace(config_of(PART, None), batch_size=4, max_items=11, wasted_time=0.02)
    contest = contest_of(PART, TESTS / f"{script}.py", config, data, "cpu")
    with BenchWithoutRace(contest, print) as bench:
        verdict = PART.check(bench)
    assert verdict.outcome is outcome
    assert says in verdict.reasons[0]
