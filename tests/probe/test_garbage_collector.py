"""Pauses in which Python looks for garbage, timed while steps are as they are and tried without what stays."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.messages import AsItIs, KeepBatches
from workshop.probe.observations import Trial
from workshop.probe.trials.garbage_collector import GarbagePauses, times_a_step


@pytest.fixture(autouse=True)
def _nothing_is_left_out() -> Iterator[None]:
    gc.unfreeze()  # of what those of conftest.py have
    yield
    gc.freeze()


def trained(path: Path, every: int, asks: bool = True) -> list[Trial]:
    """What is noted of ten steps in which all objects are gone over now and then, by the script's line or by Python."""
    pauses = GarbagePauses(EventFile(str(path)))
    pauses.on_stage(AsItIs())
    for step in range(10):
        if every and step % every == 0:
            if asks:
                gc.collect()
            else:
                collect_by_itself()
        pauses.on_step_end(1)
    pauses.on_stage(KeepBatches())
    assert pauses._callback not in gc.callbacks
    return read_observations(path, [os.getpid()]).raced


def collect_by_itself() -> None:
    """Have Python itself look through all objects, as it does once there are many new ones."""
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 0)
    kept = [[[]] for _ in range(gc.get_count()[2] + 200)]
    gc.set_threshold(*before)
    del kept


LINE = trained.__code__.co_firstlineno + 7


@pytest.mark.parametrize("every", [1, 3])
def test_objects_that_stay_are_left_out(every: int, tmp_path: Path) -> None:
    stays = [[number] for number in range(100_000)]
    (trial,) = trained(tmp_path, every)
    assert (trial.name, trial.error, trial.times) == ("garbage-collector", "", pytest.approx(1 / every))
    assert trial.changed_s < trial.as_it_is_s / 2, "what stays is gone over in one of the passes alone"
    assert (trial.stack[-1][1], trial.stack[-1][2]) == (__file__, LINE)
    assert trial.usual_s > 0
    assert gc.get_freeze_count() == 0
    del stays


def test_collections_that_nobody_asks_for_have_no_line(tmp_path: Path) -> None:
    (trial,) = trained(tmp_path, 1, asks=False)
    assert (trial.error, trial.stack) == ("", ())


def test_a_script_without_collections_is_left_alone(tmp_path: Path) -> None:
    assert trained(tmp_path, 0) == []


def test_a_script_that_freezes_is_left_as_it_is(tmp_path: Path) -> None:
    gc.freeze()
    (trial,) = trained(tmp_path, 1)
    assert not trial.applies
    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize(
    ("at", "times"), [([4], 0.05), ([0, 7, 14], 1 / 7), ([*range(20)], 1.0), ([0, 1, 2, 3], 3 / 16)]
)
def test_how_often_follows_from_the_time_between_collections(at: list[int], times: float) -> None:
    assert times_a_step(at, 20) == pytest.approx(times)
