"""Part 9: what counts as drawn from Haar's measure, the cheats, and the physics of the script."""

import cmath
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from solutions import part9
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger
from workshop.judge.verdict import UnseenWork
from workshop.parts import find_part
from workshop.parts.part9 import lattice
from workshop.parts.part9.haar import complaints
from workshop.parts.part9.links_check import recorded_links, too_few_draws, words_between, wrong_links
from workshop.probe.events import ForwardPass, StepTaken
from workshop.probe.messages import Proceed
from workshop.probe.signature import encode
from workshop.runs.script import run_folder

PART = find_part("part9")
CHEATS = Path(__file__).parents[1] / "cheats" / "part9"
CPU = torch.device("cpu")
FIELDS = 16
"""The number of fields in a batch; the lattice has 64, but these are enough to tell what is wrong."""

STEPS = 15
"""The number of steps, of which every seventh is recorded whole; a check has more."""

REFUSED_AS = {
    "conjugated_every_second_step": "12% of the links are not drawn",
    "conjugates": "40% of the links are not drawn",
    "determinant_left_out": r"a determinant is off 1 by 2\.0",
    "gram_schmidt_once": r"links are not unitary: .* off 1 by \d\.\de-0[45]; asked is 1e-05",
    "frames_change_every_third_step": "of the products around squares are not drawn",
    "half_in_another_frame": "of the products around squares are not drawn",
    "half_precision": "links are not unitary",
    "identity": "100% of the links are not drawn",
    "links_reused": "73% of the links are not drawn",
    "links_reused_in_turn": "13% of the links are not drawn",
    "moved_a_little": r"depend on each other: those of direction 0 on those of direction 0, 15 fields",
    "one_field_for_all": "75% of the links are not drawn",
    "one_of_few_moves": "8% of the quotients of neighbours are not drawn",
    "phases_left_out": r"E \|tr U\|\^2 is 1\.6",
    "product_of_three": r"depend on each other: of the four directions of a site, U0 U1 U2 U3\^H is not uniform",
    "product_of_two_steps": r"depend on each other: of four steps, .* is not uniform",
    "product_with_conjugate": r"of the four directions of a site, U0 U3\* U2\^H is not uniform",
    "reused_three_steps_later": "5% of the links are not drawn",
    "rolled_every_second_step": "12% of the links are not drawn",
    "squares_of_one": "100% of the products around squares are not drawn",
    "turned_every_second_step": "8% of the quotients of neighbours are not drawn",
}
"""What is said of the links of each cheat."""

TAKE_LONGER = ("product_of_two_steps", "product_with_conjugate")


def qr() -> Tensor:
    return part9.draw_by_qr(FIELDS, CPU)


def half_of_the_squares_closed() -> Tensor:
    """Draw links, then choose those of direction 1 on every second site so that the product around a square is 1."""
    links = qr()
    first, second = links[:, 0], links[:, 1]
    second[:, ::2] = (first @ second.roll(-1, 1) @ first.roll(-1, 2).mH)[:, ::2]
    return links


def with_half(other: Callable[[Tensor], Tensor]) -> Tensor:
    """Draw half of the fields, and make the others of them."""
    half = qr()[: FIELDS // 2]
    return torch.cat([half, other(half)])


def random_exponential() -> Tensor:
    gaussian = torch.randn(part9.shape_of(FIELDS), dtype=torch.complex64)
    return torch.linalg.matrix_exp(part9.to_algebra(gaussian))


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(draw, marks=() if name == "closed-form" else pytest.mark.slow, id=name)
        for name, draw in part9.DRAW.items()
    ],
)
def test_each_way_of_the_solution_draws_from_haars_measure(draw: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    links = [draw(FIELDS, CPU) for _ in range(3)]
    assert links[0].shape == (FIELDS, 4, 4, 4, 4, 4, 3, 3)
    assert links[0].dtype == torch.complex64
    assert list(complaints(links)) == []


KEPT = part9.draw_by_qr(FIELDS, CPU)
ROOT_OF_1 = cmath.exp(2j * cmath.pi / 3)


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: torch.randn(part9.shape_of(FIELDS)), "no field of complex 3 x 3 matrices: torch.float32"),
        (lambda: qr()[..., :2, :2], "no field of complex 3 x 3 matrices"),
        (lambda: qr() * torch.nan, "not unitary"),
        (random_exponential, r"E \|tr U\|\^2 is 2\.[34].*; of links drawn from Haar's measure on SU\(3\) it is 1"),
        (lambda: with_half(lambda half: half * ROOT_OF_1), "50% of the links are not drawn"),
        (
            lambda: with_half(lambda half: qr()[:1, :1, :1, :1, :1, :1] @ half),
            r"\d\d% of the products of a site's links are not drawn",
        ),
        (lambda: KEPT @ qr()[0, 0, 0, 0, 0, 0], r"\d\d% of the products of a site's links are not drawn"),
        (half_of_the_squares_closed, "of the products around squares are not drawn"),
        (lambda: qr()[:1] @ qr()[:, :1, :1, :1, :1, :1], "of the products of a site's links are not drawn"),
    ],
    ids="real two_by_two nan exponential centre half turned squares related".split(),
)
def test_what_is_refused(draw: Callable[[], Tensor], says: str) -> None:
    torch.manual_seed(0)
    found = list(complaints([draw() for _ in range(3)]))
    assert len(found) == 1
    assert re.search(says, found[0])


@pytest.mark.parametrize(
    "cheat",
    [
        pytest.param(path, marks=pytest.mark.slow if path.stem in TAKE_LONGER else (), id=path.stem)
        for path in sorted(CHEATS.glob("[!v]*.py"))
    ],
)
def test_every_cheat_is_refused_and_named(cheat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The links of some steps are judged, and one field of all, as if these had been recorded."""
    sources: list[str] = []
    monkeypatch.setitem(sys.modules, "variation", SimpleNamespace(train_with=sources.append))
    runpy.run_path(str(cheat))
    namespace = vars(lattice) | {"draw_honestly": lattice.draw_links}
    exec(sources[0], namespace)
    torch.manual_seed(0)
    drawn = [namespace["draw_links"](FIELDS, CPU) for _ in range(STEPS)]
    found = list(complaints([links[1:] for links in drawn[::7]], [links[0] for links in drawn]))
    assert len(found) == 1
    assert re.search(REFUSED_AS[cheat.stem], found[0])


def test_of_steps_that_were_not_seen_nothing_is_said() -> None:
    """The bench reports a script whose loss or training it cannot see."""
    assert list(complaints([])) == []
    assert list(wrong_links(Ledger(), Ledger(), [])) == []


def test_the_flow_learns_what_the_strong_coupling_expansion_says() -> None:
    """To leading order in beta, the best rate is beta / 32 and the free energy of a link - beta^2 / 24."""
    torch.manual_seed(0)
    links = part9.draw_closed_form(64, CPU)
    energies = []
    with torch.no_grad():
        for rate in (0.5, 1.0, 1.5):
            model = part9.FreeEnergy()
            model.flow.rates.fill_(rate * part9.BETA / 32)
            energies.append(float(model(links)))
    low, best, high = energies
    assert best < min(low, high)
    assert best == pytest.approx(-(part9.BETA**2) / 24, rel=0.1)


@pytest.mark.slow
def test_links_are_judged_as_they_enter_the_model() -> None:
    command = [str(CHEATS / "links_reused_in_turn.py"), *PART.arguments, "--batch-size", "8", "--device", "cpu"]
    with run_folder() as folder, JudgedScript(command, folder, epoch_steps=PART.steps, random_states=True) as script:
        samples = [sample for sample in (script.epoch(Proceed(step)).sample for step in (0, 2)) if sample]
        ledger = Ledger.of(script.folder)
        found = list(wrong_links(ledger, ledger, samples))
        whole, field = recorded_links(ledger, samples)
    assert len(samples) == 2
    assert [len(each) for each in whole] == [7, 7], "the eighth field is noted in each step"
    assert [each.shape for each in field] == [(4, 4, 4, 4, 4, 3, 3)] * 6
    assert found[-1].startswith("16 of 48 fields had come before")


@pytest.mark.parametrize("drawn", [0, 1, 623, 624, 625, 65_536, 500_000])
def test_random_numbers_are_counted_from_the_states_of_the_generator(drawn: int) -> None:
    for _ in range(2):  # from the seed, and from the middle of a block
        before = torch.get_rng_state()
        torch.empty(drawn).random_(10)
        after = torch.get_rng_state()
        assert words_between(before.numpy().tobytes(), after.numpy().tobytes(), most=10**6) == drawn
    if drawn:
        assert words_between(after.numpy().tobytes(), before.numpy().tobytes(), most=5000) == 5000, "never"


def drawn(draw: Callable[[int], object]) -> Ledger:
    """The ledger of ten steps, each with a field of 64 links, before which something is drawn."""
    steps = []
    for number in range(10):
        draw(number)
        state = torch.get_rng_state().numpy().tobytes()
        values = np.zeros((1, 64), np.float32)
        entered = ForwardPass(number, (1, 4, 2, 2, 2, 2, 3, 3), "complex64", "cpu", False, encode(values), None, state)
        steps.append(StepTaken(number, 1, 1, (entered,), 1, (0.0,)))
    return Ledger(steps=steps)


def test_links_that_are_not_drawn_for_their_step() -> None:
    own = torch.Generator()
    for draw in (lambda _: torch.randn(64, 9), lambda number: number % 2 or torch.randn(2 * 64, 12)):
        assert list(too_few_draws(drawn(draw))) == []
    [says] = too_few_draws(drawn(lambda _: torch.randn(64)))
    assert says == "9 steps drew 576 random numbers, and their links need at least 3,584"
    [says] = too_few_draws(drawn(lambda number: torch.randn(64, 9 * 10 if number == 1 else 0)))
    assert says == "9 steps drew 2,048 random numbers, and their links need at least 3,584", (
        "of a step, at most 32 a link count"
    )
    [says] = too_few_draws(drawn(lambda _: torch.randn(64, 9, generator=own)))
    assert isinstance(says, UnseenWork)
