"""Part 5 tells a cache on disk from what only looks like one."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from workshop import judge
from workshop.experiment import ExperimentConfig
from workshop.harness.bench import PartBench, Trial
from workshop.harness.verdict import Outcome, Verdict
from workshop.parts import SOLUTIONS, find_part
from workshop.state import State

UNFINISHED = Path(__file__).parents[1] / "unfinished"

PART = find_part("part5")


class Measured(Exception):
    """The check has come as far as the race."""


class Bench(PartBench):
    """Everything but the race, whose outcome depends on the machine."""

    def race(self, *notes: str) -> Verdict:
        raise Measured(*notes)


@pytest.fixture
def bench(data: Path, tmp_path: Path) -> Iterator[object]:
    """Make a bench for a script, with few items that are not very slow."""
    with ExitStack() as stack:

        def make(script: Path) -> Bench:
            config = ExperimentConfig(
                batch_size=4, max_items=11, wasted_time=0.02, image_size=64, max_epochs=1000, dataset="stand-in"
            )
            trial = Trial(PART, script, config, data, "cpu")
            return stack.enter_context(Bench(trial, State(tmp_path), judge.machine("cpu"), lambda _: None))

        yield make


@pytest.mark.parametrize(
    ("script", "says"),
    [
        pytest.param(
            SOLUTIONS / "part1.py",
            "nothing is kept: 11 of 11 photos were read slowly again in the second epoch",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            UNFINISHED / "cache_in_memory.py",
            "a second run read 11 of 11 photos slowly again",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            UNFINISHED / "epoch_keyed_cache.py",
            "sees the very pictures of the first, with the same augmentations",
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_what_is_no_cache_yet(script: Path, says: str, bench: type[Bench]) -> None:
    verdict = PART.check(bench(script))
    assert isinstance(verdict, Verdict)
    assert verdict.outcome is Outcome.NOT_YET
    assert says in verdict.reasons[0]


@pytest.mark.slow
@pytest.mark.parametrize("script", [PART.solution, UNFINISHED.parent / "honest" / "lmdb_cache.py"])
def test_a_cache_on_disk_is_raced(script: Path, bench: type[Bench]) -> None:
    with pytest.raises(Measured, match="the first epoch, on an empty cache, ran at"):
        PART.check(bench(script))
