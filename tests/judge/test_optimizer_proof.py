"""Optimizers have the settings of the original in each step, those of other models included."""

from dataclasses import replace

import pytest

from workshop.judge.ledger import Ledger
from workshop.judge.optimizer_proof import check_optimizer, check_other_optimizers
from workshop.probe.events import OtherOptimizer, ParameterGroup, StepTaken, TrainedModel


def ledger(*rates_of_steps: list[float], adaptive: bool = False, run_index: int = 0) -> Ledger:
    """A training in which each step has some parameter groups, given their learning rates."""
    steps = []
    for rates in rates_of_steps:
        groups = tuple(ParameterGroup("AdamW", 2, {"lr": rate, "fused": len(rates) > 1}) for rate in rates)
        steps.append(StepTaken(0.0, 1, 1, (), 1, (0.0,), groups=groups, run_index=run_index))
    return Ledger(steps=steps, model=TrainedModel(0.0, 1, 1, ((3,),), 1, adaptive))


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        ([0.1, 0.1], [0.1], ""),
        ([0.1], [0.1, 0.1, 0.1], ""),
        ([0.1], [0.1000000001], ""),
        ([0.1], [0.1, 0.2], "the optimizer's lr is 0.2 for 2 of its tensors, the original's 0.1"),
        ([0.1, 0.2], [0.1], "the original's optimizer has other settings for 2 of its tensors: lr 0.2"),
        ([0.1, 0.2], [0.2, 0.1], ""),
    ],
)
def test_every_group_of_parameters_has_its_settings(ours: list[float], theirs: list[float], says: str) -> None:
    assert list(map(str, check_optimizer(ledger(ours), ledger(theirs)))) == ([says] if says else [])


SCHEDULE = ledger([0.1], [0.05], [0.025])
DEPENDS_ON_CHANCE = ledger([0.1], [0.05], adaptive=True)
MAY_CHANGE = ledger([0.1], [0.1], [0.1], adaptive=True)


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        (ledger([0.1]), ledger([0.1], [0.1], [0.2], run_index=1), "in step 3, the optimizer's lr is 0.2"),
        (SCHEDULE, ledger([0.1], [0.05]), None),
        (SCHEDULE, ledger([0.1], [0.1]), "in step 2, the optimizer's lr is 0.1, the original's 0.05"),
        (ledger([0.1]), SCHEDULE, None),  # the original has not come that far
        (DEPENDS_ON_CHANCE, ledger([0.1], [0.1]), None),
        (MAY_CHANGE, ledger([0.1], [0.1], [0.01]), None),
        (DEPENDS_ON_CHANCE, ledger([0.3]), "the optimizer's lr is 0.3, the original's 0.1"),
    ],
)
def test_a_schedule_is_followed_step_by_step_and_one_value_in_every_run(
    ours: Ledger, theirs: Ledger, says: str | None
) -> None:
    found = list(check_optimizer(ours, theirs))
    assert [str(each).startswith(says or "-") for each in found] == [True] * bool(says)


@pytest.mark.parametrize(("theirs", "says"), [(0.025, ""), (0.0125, ""), (0.2, "in step 3")])
def test_a_schedule_may_count_the_steps_of_others_that_the_loop_took(theirs: float, says: str) -> None:
    """Before its third step, the original's loop took one of the candidate's."""
    ours = ledger([0.1], [0.05], [theirs if theirs == 0.0125 else 0.025])
    ours.steps[2] = replace(ours.steps[2], retaken=1)
    candidate = ledger([0.1], [0.05], [0.025 if theirs != 0.2 else 0.2], [0.0125])
    found = "".join(map(str, check_optimizer(ours, candidate)))
    assert found.startswith(says)
    assert bool(found) == bool(says)


def with_another(steps: int, moved: int = 2, rate: float = 0.1, shape: tuple[int, ...] = (3,)) -> Ledger:
    found = ledger(*[[0.1]] * 8)
    found.others = [OtherOptimizer(0.0, 1, 1, "Adam", (shape, (2,)), {"lr": rate}, steps, moved)]
    return found


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        (with_another(8), []),
        (with_another(7), []),
        (ledger([0.1]), ["another model's Adam (5 parameters) never steps"]),
        (with_another(8, shape=(4,)), ["another model's Adam (5 parameters) never steps"]),
        (
            with_another(4),
            [
                "another model's Adam (5 parameters) steps 0.50 times for each step of the first model, "
                "in the original 1.00 times"
            ],
        ),
        (with_another(8, moved=1), ["another model's Adam (5 parameters) moves only 1 of its 2 tensors"]),
        (with_another(8, rate=0.2), ["the lr of another model's Adam (5 parameters) is 0.2, the original's 0.1"]),
    ],
)
def test_the_optimizers_of_other_models(theirs: Ledger, says: list[str]) -> None:
    assert list(map(str, check_other_optimizers(with_another(8), theirs))) == says


def test_a_schedule_may_be_seen_to_adapt_in_a_later_epoch() -> None:
    models = [TrainedModel(0.0, 1, 1, ((3,),), 1, adaptive) for adaptive in (False, True, False)]
    found = Ledger.of_events(models).model
    assert found
    assert found.adaptive
