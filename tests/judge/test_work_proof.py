"""Cheats are refused and named; honest ways to be faster are not. Each is a script that really ran."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from judge.recorded_evidence import FOLDER, ITEMS, SCRIPTS, Recorded, load, names_in, record, save
from said import OF_CHEATS, OF_UNSEEN_WORK, MadeReason, is_said

from workshop import probe
from workshop.judge.ledger import Ledger
from workshop.judge.photo_proof import PhotoReason, check_flat
from workshop.judge.reasons import Reason
from workshop.judge.step_proof import StepAspect, StepReason, check_recomputed, not_reproducible
from workshop.judge.verdict import Outcome, Verdict, VerdictReason, other_work
from workshop.judge.work_proof import (
    WorkReason,
    check_batches,
    check_items,
    check_joined,
    check_model,
    check_passes,
    check_progress,
    check_without_gradients,
)
from workshop.probe.events import (
    SAMPLES,
    ForwardPass,
    LoaderStarted,
    Signatures,
    StepTaken,
    TrainedModel,
)
from workshop.probe.messages import Recomputation
from workshop.probe.signature import encode, signature

KEPT = [pytest.param(part, path.stem, id=f"{part}-{path.stem}") for part in SCRIPTS for path in SCRIPTS[part]]


def kept(part: str, name: str) -> Recorded:
    return load(FOLDER / f"{part}.xz", name)


@pytest.mark.parametrize("part", OF_CHEATS)
def test_every_script_has_its_evidence_and_every_cheat_a_name(part: str) -> None:
    scripts = {path.stem: path for path in SCRIPTS[part]}
    assert names_in(FOLDER / f"{part}.xz") == {"original", *scripts}
    assert {name for name, path in scripts.items() if "cheats" in path.parts} - OF_UNSEEN_WORK.keys() == OF_CHEATS[
        part
    ].keys()


@pytest.mark.parametrize(("part", "script"), KEPT)
def test_cheats_are_refused_and_named_and_honest_work_passes(part: str, script: str) -> None:
    assert_right(part, script, kept(part, script).differences(kept(part, "original")))


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([[0.0] * 20] * 3, []),
        ([[2.5] * 20] * 3, []),
        ([[900.0] * 15 + [1.0] * 5, [1.0] * 20, [1.0] * 20], []),  # a kink: the layers before it, in one step
        ([[900.0] * 15 + [1.0] * 5, [900.0] + [1.0] * 19, [1.0] * 20], []),
        ([[300.0] * 20], []),  # one step alone says nothing
        ([[300.0] * 20, [290.0] * 20], [StepReason.LOWER_PRECISION(times=290)]),
        ([[0.0] * 19 + [800.0]] * 3, [StepReason.LOWER_PRECISION_OF_SOME(tensors=1, times=800)]),
    ],
)
def test_lower_precision_shows_in_several_steps(errors: list[list[float]], expected: list[Reason]) -> None:
    candidate = Ledger(recomputed=[Recomputation(gradient_errors=each) for each in errors])
    assert list(check_recomputed(Ledger(), candidate)) == expected


@pytest.mark.parametrize(("each", "is_unseen"), [([1, 1, 1], True), ([2, 1, 0], False), ([0, 0, 0], False)])
def test_one_backward_pass_for_a_sum_of_losses_is_no_accusation(each: list[int], is_unseen: bool) -> None:
    def trained(backwards: list[int]) -> Ledger:
        events = kept("part3", "original").ranks[0]
        first = next(place for place, event in enumerate(events) if isinstance(event, StepTaken))
        step = events[first]
        return Ledger.of_events([*events[:first], *(replace(step, backwards=number) for number in backwards)])

    [says] = check_passes(trained([4, 4, 4]), trained(each))
    assert is_said(WorkReason.OTHER_BACKWARDS, [says])
    assert says.is_unseen is is_unseen


@pytest.mark.parametrize(("sizes", "is_unseen"), [([4], True), ([3], False), ([2, 2], False)])
def test_larger_passes_with_as_many_items_in_a_step_are_no_accusation(sizes: list[int], is_unseen: bool) -> None:
    def trained(sizes: list[int]) -> Ledger:
        events = kept("part3", "original").ranks[0]
        first = next(place for place, event in enumerate(events) if isinstance(event, StepTaken))
        step = events[first]
        passes = [replace(step.forwards[0], shape=(size, *step.forwards[0].shape[1:])) for size in sizes]
        return Ledger.of_events([*events[:first], *[replace(step, forwards=passes)] * 3])

    says = check_joined(trained([2, 2]), trained(sizes))
    assert [each.kind for each in says] == [WorkReason.PASSES_JOINED] * is_unseen


def test_one_epoch_of_the_original_is_enough_where_its_items_are_known() -> None:
    """The judge says so before a race, of which the original's next epoch would be the first."""
    events, dropped = (kept("part3", name).ranks[0] for name in ("original", "last_batch_dropped"))
    second = [event for event in events if isinstance(event, LoaderStarted)][1]
    original = Ledger.of_events(events[: events.index(second)])
    candidate = Ledger.of_events(dropped)
    assert list(check_items(original, candidate, 0)) == []
    [says] = check_items(original, candidate, ITEMS)
    assert says.kind is WorkReason.LAST_BATCH_DROPPED


def test_what_the_original_does_not_reproduce_is_not_asked_for() -> None:
    of_chance = Recomputation(loss=1.0, recorded_loss=1.0, gradient_error=0.5)
    lost_state = Recomputation(loss=1.0, recorded_loss=1.0, gradient_error=0.5, state_error=0.1)
    original = Ledger(recomputed=[of_chance])
    assert len(list(check_recomputed(Ledger(), Ledger(recomputed=[of_chance])))) == 1
    assert list(check_recomputed(original, Ledger(recomputed=[of_chance]))) == []
    [found] = check_recomputed(original, Ledger(recomputed=[lost_state]))
    assert found.kind is StepReason.OTHER_STATE
    assert not_reproducible([of_chance, lost_state]) == [StepAspect.GRADIENTS, StepAspect.STATE]


def assert_right_anew(part: str, scripts: list[Path], data: Path, folder: Path) -> None:
    """Record some scripts, and judge what is read from the file."""
    save(folder / "anew.xz", dict(record(part, data, scripts)))
    for script in scripts:
        candidate, original = (load(folder / "anew.xz", name) for name in (script.stem, "original"))
        assert_right(part, script.stem, candidate.differences(original))


@pytest.mark.slow
def test_evidence_that_is_recorded_anew_says_the_same(data: Path, tmp_path: Path) -> None:
    scripts = [path for path in SCRIPTS["part3"] if path.stem in ("part3", "policies_left_out")]
    assert len(scripts) == 2
    assert_right_anew("part3", scripts, data, tmp_path)


@pytest.mark.acceptance
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", SCRIPTS)
def test_any_evidence_that_is_recorded_anew_says_the_same(
    part: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a fifth of the scripts, which the text of the probe decides: another one after each change of it."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # what is compiled, is compiled anew
    dice = random.Random(b"".join(path.read_bytes() for path in sorted(Path(probe.__file__).parent.glob("*.py"))))
    assert_right_anew(part, dice.sample(SCRIPTS[part], len(SCRIPTS[part]) // 5), data, tmp_path)


def assert_right(part: str, script: str, found: list[Reason]) -> None:
    """One cheat is one complaint, or two."""
    if script in OF_CHEATS[part]:
        refused = [complaint for complaint in found if not complaint.is_unseen]
        assert is_said(OF_CHEATS[part][script], refused), list(map(str, found))
        assert len(refused) <= 2
    elif script in OF_UNSEEN_WORK:
        assert all(complaint.is_unseen for complaint in found)
        assert is_said(OF_UNSEEN_WORK[script], found[:1]), list(map(str, found))
    else:
        assert found == []


def test_what_cannot_be_seen_is_no_accusation() -> None:
    smaller, unseen = MadeReason.SAYS("it is smaller"), WorkReason.TARGETS_UNSEEN()
    undecided = Verdict("mine.py", Outcome.UNDECIDED, (VerdictReason.WORK_UNSEEN(unseen),))
    assert other_work("mine.py", [unseen]) == undecided
    assert str(undecided.reasons[0]).startswith("the judge cannot see whether it is the same work: the targets ")
    assert other_work("mine.py", [smaller, unseen]) == Verdict("mine.py", Outcome.OTHER_WORK, (smaller,))
    assert other_work("mine.py", []) is None


def test_inputs_of_different_sizes_are_compared_on_the_average() -> None:
    def ledger(*lengths: int) -> Ledger:
        empty = Signatures((0, 0), b"")
        forwards = [ForwardPass(0.0, (4, length), "int64", "cpu", False, empty) for length in lengths]
        return Ledger(steps=[StepTaken(0.0, 1, 1, (forward,), 1, (0.0,)) for forward in forwards])

    assert list(check_batches(ledger(39, 37, 40), ledger(40, 38, 36))) == []
    assert list(map(str, check_batches(ledger(39, 37, 40), ledger(20, 20, 20)))) == [
        "the model's inputs have 20 values on the average, the original's 39"
    ]
    [says] = check_batches(ledger(39, 39), ledger(40, 40))
    assert str(says) == "the model's input is 40, the original's 39"


def taken(steps: int, of_epoch: int, validated: Sequence[int] = (), validation: int = 100) -> Ledger:
    """Steps of eight items each, of epochs that begin anew; some come after a validation of so many items."""
    found = Ledger(loader_starts=[float(begin) for begin in range(0, steps, of_epoch)])
    for number in range(steps):
        targets = tuple(range(number % of_epoch * 8, number % of_epoch * 8 + 8))
        forward = ForwardPass(number + 0.5, (8, 3), "float32", "cpu", False, Signatures((0, 0), b""), targets)
        items = validation * (number in validated)
        found.steps.append(StepTaken(number + 0.5, 1, 1, (forward,), 1, (0.0,), without_gradients=items))
    return found


def test_an_epoch_that_the_judge_has_cut_skips_no_batches() -> None:
    original = taken(40, 20)
    assert list(check_items(original, taken(16, 20), 0)) == [], "it has not come to the end of its epoch"
    [says] = check_items(original, taken(48, 16), 0)
    assert says.kind is WorkReason.BATCHES_SKIPPED


def test_one_whole_epoch_does_not_show_that_targets_come_again() -> None:
    """As where a target is noise."""

    def with_targets_from(first: int, of: Ledger) -> Ledger:
        for step in of.steps:
            [forward] = step.forwards
            of.steps[of.steps.index(step)] = replace(
                step, forwards=(replace(forward, targets=tuple(first + each for each in forward.targets or ())),)
            )
        return of

    other = with_targets_from(10_000, taken(100, 100))
    assert list(check_items(taken(150, 100), other, 0)) == []
    [says] = check_items(taken(250, 100), other, 0)
    assert says.figures["missing"] == 800, "two epochs show it"


def test_batches_that_vary_in_their_number_of_items_are_compared_as_a_whole() -> None:
    dice = random.Random(0)

    def trained(low: int, high: int) -> Ledger:
        empty = Signatures((0, 0), b"")
        sizes = [dice.randint(low, high) for _ in range(150)]
        forwards = [ForwardPass(0.0, (size, 3), "float32", "cpu", False, empty) for size in sizes]
        return Ledger(steps=[StepTaken(0.0, 1, 1, (each,), 1, (0.0,)) for each in forwards])

    original = trained(5, 400)
    assert list(check_batches(original, trained(5, 400))) == []
    [says] = check_batches(original, trained(5, 200))
    assert says.kind is WorkReason.SMALLER_BATCHES


def test_what_moves_by_chance_may_move_a_little_less_often() -> None:
    def trained(steps: int, still: int) -> Ledger:
        found = taken(steps, steps)
        found.model = TrainedModel(0.0, 1, 1, ((3,),), 1, False)
        found.steps = [replace(each, still=(0,) * (number < still)) for number, each in enumerate(found.steps)]
        return found

    assert list(check_progress(trained(30, 3), trained(20, 4))) == []
    [says] = check_progress(trained(30, 3), trained(20, 15))
    assert (says.kind, says.figures["share"]) == (WorkReason.PARAMETERS_STILL, 0.75)
    [says] = check_progress(trained(30, 0), trained(20, 4))
    assert says.figures["share"] == 0.2, "where the original always moves it"


def test_tensors_that_are_joined_move_as_often_as_those_that_they_are_made_of() -> None:
    def trained(still: dict[int, int], *shapes: tuple[int, ...]) -> Ledger:
        found = taken(40, 40)
        found.model = TrainedModel(0.0, 1, 1, shapes, 1, False)
        found.steps = [
            replace(each, still=frozenset(row for row, steps in still.items() if number < steps))
            for number, each in enumerate(found.steps)
        ]
        return found

    apart, joined = [(3,), (3,), (3,), (5,)], [(5,), (9,)]
    original = trained({2: 10}, *apart)
    assert list(check_model(original, trained({}, *joined))) == []
    assert list(check_progress(original, trained({0: 10}, *joined))) == []
    [says] = check_progress(original, trained({1: 38}, *joined))
    assert says.kind is WorkReason.PARAMETERS_STILL
    [says] = check_model(original, trained({}, (9,), (6,)))
    assert says.kind is WorkReason.OTHER_MODEL


@pytest.mark.parametrize(
    ("validated", "items"),
    [
        (range(10, 100, 10), []),
        (range(20, 100, 10), []),  # the steps that the original takes again shift its own count
        (range(20, 100, 20), [400]),
        ((), [0]),
    ],
)
def test_a_validation_may_fall_out_of_the_steps_but_not_half_of_them(
    validated: Sequence[int], items: list[int]
) -> None:
    found = list(check_without_gradients(taken(100, 100, range(0, 100, 10)), taken(100, 100, validated)))
    assert found == [WorkReason.FEWER_VALIDATED(steps=100, candidate=each, original=1000) for each in items]


def test_a_validation_that_is_cut_is_seen_in_the_first_one() -> None:
    original = taken(20, 20, [15])
    assert list(check_without_gradients(original, taken(20, 20, [15]))) == []
    [says] = check_without_gradients(original, taken(20, 20, [15], validation=40))
    assert says == WorkReason.FEWER_VALIDATED(steps=20, candidate=40, original=100)


def test_what_is_conjugated_only_when_needed_can_be_looked_at() -> None:
    links = torch.randn(2, 3, 4, 4, dtype=torch.complex64)
    assert signature(links.conj()).shape == signature(links).shape


def test_pictures_of_one_colour_show_no_photo() -> None:
    def ledger(flat: int) -> Ledger:
        pictures = np.random.default_rng(0).random((50, 3 * SAMPLES), np.float32)
        pictures[:flat] = 0.5
        forward = ForwardPass(0.5, (50, 3, 8, 8), "float32", "cpu", False, encode(pictures), None)
        return Ledger(steps=[StepTaken(0.5, 1, 1, (forward,), 1, (0.0,))])

    assert list(check_flat(ledger(0), ledger(0))) == []
    assert list(check_flat(ledger(2), ledger(4))) == []
    assert list(check_flat(ledger(0), ledger(4))) == [PhotoReason.FLAT(candidate=0.08, original=0.0)]
