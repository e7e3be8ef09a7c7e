"""The steps within epochs, and the blocks that they are compared by."""

from dataclasses import replace

import numpy as np
import pytest

from workshop.probe.messages import AsItIs, BatchCounts, Circumstances, StepReport
from workshop.probe.phases import Phase
from workshop.runs.measured_steps import Stage
from workshop.tuning.loader_trials import blocks_ms, ceiling_ms, within_epochs


def reports(*durations_ms: float, epoch: int) -> list[StepReport]:
    """A report of each step; every `epoch` steps, one begins an epoch."""
    return [
        StepReport(
            stage=AsItIs(),
            durations_us=(round(1e3 * each),),
            ended_s=0.0,
            phases={str(phase): 0.0 for phase in Phase},
            samples=1,
            batches=BatchCounts(),
            circumstances=Circumstances(),
            epochs_begun=int(at % epoch == 0),
        )
        for at, each in enumerate(durations_ms)
    ]


def test_of_the_first_step_of_an_epoch_only_the_wait_counts() -> None:
    stage = reports(90, 1, 2, 3, 95, 2, epoch=4)
    stage[4].phases[Phase.DATA_WAIT] = 0.007  # type: ignore[index]
    assert within_epochs(Stage(stage)) == [2, 1, 2, 3, 9, 2]


def test_where_every_step_begins_an_epoch_all_count() -> None:
    assert within_epochs(Stage(reports(9, 8, 7, epoch=1))) == [9, 8, 7]


def test_bursts_of_workers_are_in_one_block() -> None:
    """Four workers hand out four batches at once, and then nothing for a while."""
    blocks = blocks_ms([40.0, 0.0, 0.0, 0.0] * 9, workers=4)
    assert blocks == [10.0] * 9


@pytest.mark.parametrize(("steps", "workers"), [(3, 0), (5, 16), (1, 4), (500, 3)])
def test_there_are_few_blocks_of_many_steps(steps: int, workers: int) -> None:
    blocks = blocks_ms([2.0] * steps, workers)
    assert set(blocks) == {2.0}
    assert 1 <= len(blocks) <= 12


def test_the_ceiling_leaves_out_what_is_between_epochs() -> None:
    """A validation of 500 ms is in the headroom as often as in the script as it is."""
    as_it_is = Stage(reports(500, 50, 50, 50, 500, 50, 50, 50, epoch=4))
    headroom = Stage(reports(9, 10, 11, 10, 9, 11, 10, epoch=100)).like(as_it_is).together
    assert headroom.ms_a_step > 60
    assert ceiling_ms(headroom, as_it_is) == pytest.approx(10.2, abs=0.5)


def test_where_most_steps_are_reported_with_an_epoch_that_begins_all_count() -> None:
    """Only steps that were slow by chance are reported alone: they tell nothing of the others."""
    fast, slow = reports(80, epoch=1), reports(0, 60, 70, 65, epoch=9)[1:]
    together = [replace(fast[0], durations_us=(10_000,) * 8)] * 6
    assert np.mean(within_epochs(Stage([*together, *slow]))) == pytest.approx((6 * 80 + 195) / 51)
