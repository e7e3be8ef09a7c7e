"""Part 9: what counts as drawn from Haar's measure, the cheats, and the physics of the script."""

import cmath
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from said import is_said
from torch import Tensor

from solutions import part9
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason, ReasonKind
from workshop.parts import find_part
from workshop.parts.part9 import lattice
from workshop.parts.part9.haar import DependenceReason, HaarReason, complaints
from workshop.parts.part9.links_check import LinkReason, recorded_links, too_few_draws, words_between, wrong_links
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

OF_SITE = "the four directions of a site"

REFUSED_AS: dict[str, tuple[ReasonKind | Reason, float | None]] = {
    "conjugated_every_second_step": (HaarReason.LINKS_AGAIN, 0.12),
    "conjugates": (HaarReason.LINKS_AGAIN, 0.4),
    "determinant_left_out": (HaarReason.NOT_SPECIAL, None),
    "gram_schmidt_once": (HaarReason.NOT_UNITARY, None),
    "frames_change_every_third_step": (HaarReason.SQUARES_AGAIN, None),
    "half_in_another_frame": (HaarReason.SQUARES_AGAIN, None),
    "half_precision": (HaarReason.NOT_UNITARY, None),
    "identity": (HaarReason.LINKS_AGAIN, 1.0),
    "links_reused": (HaarReason.LINKS_AGAIN, 0.73),
    "links_reused_in_turn": (HaarReason.LINKS_AGAIN, 0.13),
    "moved_a_little": (DependenceReason.CORRELATED(nu=0, mu=0, steps=15, axis="field"), None),
    "one_field_for_all": (HaarReason.LINKS_AGAIN, 0.75),
    "one_of_few_moves": (HaarReason.QUOTIENTS_AGAIN, 0.08),
    "phases_left_out": (HaarReason.OTHER_MEAN("E |tr U|^2"), None),
    "product_of_three": (DependenceReason.PRODUCT_NOT_UNIFORM(name=OF_SITE, product="U0 U1 U2 U3^H"), None),
    "product_of_two_steps": (DependenceReason.PRODUCT_NOT_UNIFORM(name="four steps"), None),
    "product_with_conjugate": (DependenceReason.PRODUCT_NOT_UNIFORM(name=OF_SITE, product="U0 U3* U2^H"), None),
    "reused_three_steps_later": (HaarReason.LINKS_AGAIN, 0.05),
    "rolled_every_second_step": (HaarReason.LINKS_AGAIN, 0.12),
    "squares_of_one": (HaarReason.SQUARES_AGAIN, 1.0),
    "turned_every_second_step": (HaarReason.QUOTIENTS_AGAIN, 0.08),
}
"""What is said of the links of each cheat, and of which share of them."""

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
    ("draw", "kind"),
    [
        (lambda: torch.randn(part9.shape_of(FIELDS)), HaarReason.NO_FIELD(type=torch.float32)),
        (lambda: qr()[..., :2, :2], HaarReason.NO_FIELD),
        (lambda: qr() * torch.nan, HaarReason.NOT_UNITARY),
        (random_exponential, HaarReason.OTHER_MEAN("E |tr U|^2", expected=1)),
        (lambda: with_half(lambda half: half * ROOT_OF_1), HaarReason.LINKS_AGAIN),
        (lambda: with_half(lambda half: qr()[:1, :1, :1, :1, :1, :1] @ half), HaarReason.SITES_AGAIN),
        (lambda: KEPT @ qr()[0, 0, 0, 0, 0, 0], HaarReason.SITES_AGAIN),
        (half_of_the_squares_closed, HaarReason.SQUARES_AGAIN),
        (lambda: qr()[:1] @ qr()[:, :1, :1, :1, :1, :1], HaarReason.SITES_AGAIN),
    ],
    ids="real two_by_two nan exponential centre half turned squares related".split(),
)
def test_what_is_refused(draw: Callable[[], Tensor], kind: ReasonKind | Reason) -> None:
    torch.manual_seed(0)
    [found] = complaints([draw() for _ in range(3)])
    assert is_said(kind, [found]), str(found)
    assert found.kind is not HaarReason.LINKS_AGAIN or found.figures["share"] == pytest.approx(0.5, abs=0.005)


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
    [found] = complaints([links[1:] for links in drawn[::7]], [links[0] for links in drawn])
    expected, share = REFUSED_AS[cheat.stem]
    assert is_said(expected, [found]), str(found)
    assert share is None or found.figures["share"] == pytest.approx(share, abs=0.005)


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
    assert found[-1] == LinkReason.FIELDS_AGAIN(again=16, fields=48)


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
    assert str(says) == "9 steps drew 576 random numbers, and their links need at least 3,584"
    [says] = too_few_draws(drawn(lambda number: torch.randn(64, 9 * 10 if number == 1 else 0)))
    assert says.figures["words"] == 2048, "of a step, at most 32 a link count"
    [says] = too_few_draws(drawn(lambda _: torch.randn(64, 9, generator=own)))
    assert says.is_unseen
