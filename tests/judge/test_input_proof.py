"""Whether what enters a model is what enters the original's: any kind of data, as scripts really loaded it."""

import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from judge.recorded_evidence import load, names_in
from judge.recorded_inputs import CHEATS, HONEST, INPUTS, ORIGINALS, file_of, original_of
from said import OF_INPUTS

from workshop.judge.asked_proof import AskedReason
from workshop.judge.drawn_anew import check_noise
from workshop.judge.input_proof import check_inputs, known_items
from workshop.judge.inputs import Items, items_of
from workshop.judge.item_proof import ItemReason, check_made_anew
from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason
from workshop.judge.step_proof import check_recomputed
from workshop.judge.two_samples import RARE, TOO_RARE, Strata, chance_of_batches, counts_of
from workshop.judge.work_proof import ITEM_CHECKS, check_batches, check_items


def with_the_rest_slow(scripts: Sequence[str], kind: Callable[[str], str]) -> list[Any]:
    """The first script of each kind is judged each time, the others as what takes longer is tested."""
    first = {kind(script): script for script in reversed(scripts)}.values()
    return [pytest.param(each, marks=() if each in first else pytest.mark.slow) for each in scripts]


def ledger(name: str) -> Ledger:
    return load(file_of(name), name).ledger


def said(script: str) -> list[Reason]:
    """What is said first of a script's inputs, by the checks that look at them."""
    both = ledger(original_of(script)), ledger(script)
    found = [*check_batches(*both), *check_items(*both, 0)]
    found = found or [reason for check in (check_made_anew, *ITEM_CHECKS, check_recomputed) for reason in check(*both)]
    return sorted(found, key=lambda reason: reason.is_unseen)[:1]


def test_every_script_has_its_evidence_and_every_cheat_a_name() -> None:
    names = {path.stem for path in (*ORIGINALS, *CHEATS, *HONEST)}
    assert set().union(*map(names_in, INPUTS.glob("*"))) == names
    assert {path.stem for path in CHEATS} == OF_INPUTS.keys()


def test_every_edit_fits_its_original(monkeypatch: pytest.MonkeyPatch) -> None:
    for script in (*CHEATS, *HONEST):
        if "from variation import train" in script.read_text():
            edited = runpy.run_path(str(script.with_name("variation.py")))
            train = edited["train"]
            train.__globals__["exec"] = lambda *_: None  # only the edits are made
            monkeypatch.setitem(sys.modules, "variation", SimpleNamespace(train=train))
            runpy.run_path(str(script))


@pytest.mark.parametrize("script", with_the_rest_slow(list(OF_INPUTS), OF_INPUTS.__getitem__))
def test_a_cheat_is_refused_and_named(script: str) -> None:
    [found] = said(script)
    assert tuple(part.kind for part in found.parts) == OF_INPUTS[script], str(found)


@pytest.mark.parametrize(
    "script",
    [
        *with_the_rest_slow([path.stem for path in HONEST], original_of),
        *(pytest.param(path.stem, marks=pytest.mark.acceptance) for path in ORIGINALS),  # compared with themselves
    ],
)
def test_honest_work_passes(script: str) -> None:
    assert said(script) == []


def test_items_that_are_always_the_same_are_known_from_the_dataset() -> None:
    def is_known(name: str) -> bool:
        steps = {"table": 10, "long": 40, "signals": 11, "words": 16}[name]
        return known_items(ledger(name), items_of(ledger(name), steps)[0]) is not None

    assert {name: is_known(name) for name in ("table", "long", "signals", "words")} == {
        "table": True,
        "long": True,
        "signals": False,
        "words": False,
    }


FROM_A_DATASET = [
    script
    for script, [kind, *_] in OF_INPUTS.items()
    if original_of(script) in ("long", "signals") and script != "signals_noise_from_a_pool"
    if not isinstance(kind, AskedReason | ItemReason)
]


@pytest.mark.parametrize("script", with_the_rest_slow(FROM_A_DATASET, original_of))
def test_most_shows_without_the_dataset_too(script: str) -> None:
    original = replace(ledger(original_of(script)), drawn=[])
    assert len(list(check_inputs(original, ledger(script)))) == 1


def test_items_that_are_equally_near_say_nothing() -> None:
    """Both samples have all of a few items, several times."""
    items = np.tile(np.arange(20), 10)
    distances = np.abs(items[:, None] - items).astype(float)
    strata = Strata.of_all(160, np.arange(200) // 5)
    assert strata.chance_of_repetitions(distances) > TOO_RARE


def test_draws_of_the_same_seed_are_not_told_apart() -> None:
    """Half of what such a script draws is the reference, and part of the mean that its draws are taken from."""
    dice = np.random.default_rng(0)
    sketches = dice.normal(size=(3200, 16)).astype(np.float32)
    targets = tuple(dice.integers(400, size=3200).tolist())
    every = Items(sketches, sketches, sketches, targets, np.arange(3200) // 800, np.arange(3200) // 20, np.zeros(3200))
    halves = [every[every.epochs % 2 == first] for first in (0, 1)]
    assert check_noise(*halves, every)[0] > RARE
    others = replace(every, sketches=sketches**3, features=sketches**3)
    assert check_noise(*halves, others)[0] < TOO_RARE


def _samples(dice: np.random.Generator, items: int = 60) -> tuple[np.ndarray, Strata]:
    """Two samples of one source: some classes, dimensions of different weight, and values far out."""
    kinds = dice.integers(4, size=2 * items)
    values = (dice.standard_t(3, size=(2 * items, 5)) + kinds[:, None]) * [5, 1, 1, 0.1, 0.1]
    distances = np.sqrt(((values[:, None] - values) ** 2).sum(2))
    return distances, Strata(items, kinds, np.arange(2 * items) // 5)


def test_samples_of_one_source_are_seldom_told_apart() -> None:
    dice = np.random.default_rng(1)
    chances = []
    for _ in range(150):
        distances, strata = _samples(dice)
        tests = strata.chance_of_distances, strata.chance_of_repetitions, strata.chance_of_near_pairs
        chances += [test(distances) for test in tests]
        chances.append(Strata(60, np.zeros(120), np.arange(120) // 5).chance_of_figures(dice.standard_normal(120)))
    assert 0.05 < np.mean(np.array(chances) < 0.1) < 0.16
    assert min(chances) > 1e-5


def test_of_equally_near_items_those_of_neither_sample_are_taken() -> None:
    dice = np.random.default_rng(5)
    chances = []
    for _ in range(60):
        values = dice.integers(3, size=(240, 3))
        distances = np.abs(values[:, None] - values).sum(2).astype(np.float64)
        strata = Strata(120, values[:, 0] * 0, np.arange(240))
        chances += [strata.chance_of_repetitions(distances), strata.chance_of_near_pairs(distances)]
    assert min(chances) > 1e-4
    assert np.mean(np.array(chances) < 0.1) < 0.25


def test_samples_of_two_sources_are_told_apart() -> None:
    dice = np.random.default_rng(2)
    distances, strata = _samples(dice)
    far = distances.copy()
    far[60:, :60] *= 2
    far[:60, 60:] *= 2
    assert strata.chance_of_distances(far) < TOO_RARE < strata.chance_of_distances(distances)
    assert strata.chance_of_repetitions(far) < TOO_RARE < strata.chance_of_repetitions(distances)
    figures = np.concatenate([dice.standard_normal(60), 2 + dice.standard_normal(60)])
    assert Strata(60, np.zeros(120), np.arange(120) // 2).chance_of_figures(figures) < TOO_RARE


def test_counts_of_one_source_are_seldom_told_apart() -> None:
    """Items are of some classes, some are empty, and those of a batch may have something in common."""
    dice = np.random.default_rng(3)
    batches = np.arange(240) // 8

    def chances(in_common: float) -> list[float]:
        kinds = dice.integers(4, size=240)
        middle = kinds / 3 + in_common * dice.standard_normal(30)[batches]
        values = dice.standard_t(3, size=(240, 12)) + middle[:, None]
        values[dice.random(240) < 0.1] = 0
        return [Strata(120, kinds, batches).chance_of_counts(each) for each in counts_of(values.round(1))]

    alone, together = (np.concatenate([chances(in_common) for _ in range(60)]) for in_common in (0, 1))
    assert 0.05 < np.mean(alone < 0.1) < 0.16
    assert np.mean(together < RARE) < 0.03
    assert min(*alone, *together) > 1e-4


def test_counts_of_two_sources_are_told_apart() -> None:
    """Some values are more frequent, some go together, or come twice in an item."""
    dice = np.random.default_rng(4)
    strata = Strata.of_all(200, np.arange(400) // 8)

    def chances(others: np.ndarray) -> list[bool]:
        values = np.concatenate([dice.integers(1000, size=(200, 12)), others])
        return [strata.chance_of_counts(each) < TOO_RARE for each in counts_of(values)]

    assert chances(dice.integers(1000, size=(200, 12))) == [False, False, False]
    assert chances(dice.integers(40, size=(200, 12)) * 25) == [True, False, True]
    assert chances(np.sort(dice.integers(1000, size=(200, 12)))) == [False, True, False]
    assert chances(dice.integers(1000, size=(200, 6)).repeat(2, axis=1)[:, dice.permutation(12)]) == [
        False,
        False,
        True,
    ]


def test_batches_of_two_classes_are_mixed_or_not() -> None:
    """Equal figures have one rank: where they stand in an epoch says nothing."""
    dice = np.random.default_rng(0)
    batches, epochs = np.arange(240) // 8, np.arange(240) // 80
    chances = [chance_of_batches(dice.integers(2, size=240), batches, epochs) for _ in range(100)]
    assert 20 <= sum(chance < 0.4 for chance in chances) <= 60
    assert chance_of_batches(dice.permutation(30)[batches] % 2, batches, epochs) < TOO_RARE
    assert chance_of_batches(np.zeros(240), batches, epochs) == 1
