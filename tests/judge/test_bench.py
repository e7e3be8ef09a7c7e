"""A complaint that the original draws as well, when it is run again, proves nothing; and honest work passes."""

from pathlib import Path

import pytest

from workshop.judge.bench import Bench, RefereeReason, not_alone
from workshop.judge.contest import of_two_scripts
from workshop.judge.input_proof import InputReason
from workshop.judge.reasons import Reason
from workshop.judge.sample_proof import SampleReason
from workshop.judge.work_proof import WorkReason

TESTS = Path(__file__).parents[1]

UNLIKE = SampleReason.UNLIKE(count=135, inputs=400)
STILL = WorkReason.PARAMETERS_STILL(share=0.3, tensors=1, of=4)


@pytest.mark.parametrize(
    ("of_original", "proves"),
    [
        ([], True),
        ([SampleReason.UNLIKE(count=9, inputs=400)], False),
        ([SampleReason.LESS_VARIED(count=9, inputs=400)], False),  # the first of several differences that is found
        ([InputReason.BESIDE_THE_FIRST(SampleReason.AGAIN(share=0.9, by_chance=0.5))], False),
        ([STILL], True),
        ([InputReason.BATCH_ALIKE_IN_SIZE()], True),
    ],
)
def test_samples_differ_in_one_way_or_another(of_original: list[Reason], proves: bool) -> None:
    [found] = not_alone([UNLIKE], of_original, "train.py")
    assert found == (UNLIKE if proves else RefereeReason.OF_ORIGINAL_TOO(UNLIKE, original="train.py"))
    assert found.is_unseen is not proves


def test_other_complaints_stand_for_themselves() -> None:
    assert not_alone([STILL], [UNLIKE], "train.py") == [STILL]
    assert str(not_alone([UNLIKE], [UNLIKE], "train.py")[0]).endswith("; but so did train.py when run again")


@pytest.mark.slow
@pytest.mark.parametrize("new", ["originals/summed.py", "honest/compare/summed_workers.py"])
def test_a_scaler_and_steps_of_several_batches_are_the_same_work_twice(new: str) -> None:
    contest = of_two_scripts(TESTS / "originals" / "summed.py", TESTS / new, [], target=1.0, budget_s=150)
    with Bench(contest, lambda _: None) as bench:
        bench.start()
        assert bench.refusal() is None
        assert bench.steps == 3
