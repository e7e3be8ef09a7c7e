"""Part 9: what counts as drawn from Haar's measure, the physics of the script, and its own file in every command."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import Run
from torch import Tensor

from solutions import part9
from workshop.harness.child import Child
from workshop.parts import find_part
from workshop.parts.part9.check import links_are_haar
from workshop.parts.part9.haar import complaints

PART = find_part("part9")
CHEATS = Path(__file__).parents[1] / "cheats" / "part9"
CPU = torch.device("cpu")


def qr() -> Tensor:
    return part9.draw_by_qr(64, CPU)


def gram_schmidt_once() -> Tensor:
    columns: list[Tensor] = []
    for drawn in torch.randn(part9.shape_of(64), dtype=torch.complex64).unbind(-1):
        column = drawn
        for other in columns:
            column = column - (other.conj() * drawn).sum(-1, keepdim=True) * other
        columns.append(column / torch.linalg.vector_norm(column, dim=-1, keepdim=True))
    unitary = torch.stack(columns, -1)
    return unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)


def with_half(other: Callable[[Tensor], Tensor]) -> Tensor:
    """Half of the fields drawn, the others made of them."""
    half = qr()[:32]
    return torch.cat([half, other(half)])


def random_exponential() -> Tensor:
    gaussian = torch.randn(part9.shape_of(64), dtype=torch.complex64)
    return torch.linalg.matrix_exp(part9.to_algebra(gaussian))


@pytest.mark.parametrize("draw", part9.DRAW.values(), ids=part9.DRAW)
def test_each_way_of_the_solution_draws_from_haars_measure(draw: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    links = [draw(64, CPU) for _ in range(3)]
    assert links[0].shape == (64, 4, 4, 4, 4, 4, 3, 3)
    assert links[0].dtype == torch.complex64
    assert list(complaints(links)) == []


KEPT = part9.draw_by_qr(64, CPU)


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: torch.randn(part9.shape_of(64)), "no field of complex 3 x 3 matrices: torch.float32"),
        (lambda: qr()[..., :2, :2], "no field of complex 3 x 3 matrices"),
        (lambda: qr() * torch.nan, "not unitary"),
        (gram_schmidt_once, r"off 1 by \d\.\de-0[45]; asked is 1e-05"),
        (
            lambda: part9.haar_qr(torch.randn(part9.shape_of(64), dtype=torch.complex64)),
            r"a determinant is off 1 by 2\.0",
        ),
        (random_exponential, r"E \|tr U\|\^2 is 2\.[34].*; of links drawn from Haar's measure on SU\(3\) it is 1"),
        (lambda: KEPT, "67% of the links of 3 steps are not drawn"),
        (lambda: KEPT[torch.randperm(64)], "67% of the links of 3 steps are not drawn"),
        (lambda: with_half(lambda half: half.conj()), "50% of the links of 3 steps are not drawn"),
        (
            lambda: with_half(lambda half: half * torch.exp(torch.tensor(2j * torch.pi / 3))),
            "50% of the links of 3 steps are not drawn",
        ),
        (lambda: with_half(lambda half: qr()[:1, :1, :1, :1, :1, :1] @ half), "depend on each other.* along axis 0"),
        (lambda: KEPT @ qr()[0, 0, 0, 0, 0, 0], "the links of one step depend on those of another"),
        (
            lambda: qr()[:1] @ qr()[:, :1, :1, :1, :1, :1],
            "the links of a step depend on each other: of quotients along axis 0",
        ),
    ],
    ids="real two_by_two nan one_pass u3 exponential kept shuffled conjugate centre half turned related".split(),
)
def test_what_is_refused(draw: Callable[[], Tensor], says: str) -> None:
    torch.manual_seed(0)
    found = list(complaints([draw() for _ in range(3)]))
    assert len(found) == 1
    assert re.search(says, found[0])


def test_of_steps_that_were_not_seen_nothing_is_said(tmp_path: Path) -> None:
    """The judge has words of its own for a script whose loss or training it cannot see."""
    assert list(complaints([])) == []
    unseen = SimpleNamespace(folder=tmp_path)
    assert list(links_are_haar(SimpleNamespace(original=unseen, candidate=unseen), [])) == []  # type: ignore[arg-type]


def test_of_the_moments_the_third_alone_tells_su3_from_u3() -> None:
    torch.manual_seed(0)
    trace = torch.diagonal(part9.haar_qr(torch.randn(part9.shape_of(64), dtype=torch.complex64)), dim1=-2, dim2=-1).sum(
        -1
    )
    of_su3 = torch.diagonal(qr(), dim1=-2, dim2=-1).sum(-1)
    assert abs((trace.abs() ** 4).mean() - 2) < 0.1
    assert abs((of_su3.abs() ** 4).mean() - 2) < 0.1
    assert abs((trace**3).mean()) < 0.1
    assert abs((of_su3**3).mean() - 1) < 0.1


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


def test_links_are_judged_as_they_enter_the_model() -> None:
    """The other cheats are tried by the selftest."""
    command = [str(CHEATS / "links_reused_in_turn.py"), *PART.arguments, "--device", "cpu"]
    with Child(command, Path("/nonexistent"), PART.steps) as child:
        samples = [sample for sample in (child.epoch(step).sample for step in (0, 2)) if sample]
        bench = SimpleNamespace(original=child, candidate=child)
        found = list(links_are_haar(bench, samples))  # type: ignore[arg-type]
    assert len(samples) == 2
    assert "fields had come before" in found[-1]


@pytest.mark.slow
def test_a_part_with_a_script_of_its_own_in_every_command(run: Run, project: Path, tmp_path: Path) -> None:
    def workshop(*arguments: str, code: int = 0) -> str:
        done = run("-m", "workshop", *arguments)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    missing = "there is no lattice.py here; put it there with workshop start part9"
    assert missing in workshop("check", "part9", "--answer", "1", code=2)
    assert missing in workshop("diff", "part9", "--yes", code=2)
    assert "lattice.py is here. Edit it" in workshop("start", "part9")
    assert (tmp_path / "lattice.py").read_bytes() == (PART.folder / "lattice.py").read_bytes()
    assert not (tmp_path / "train.py").exists()

    (tmp_path / "lattice.py").write_text("mine")
    assert "lattice.py is here already" in workshop("start", "9")
    assert (tmp_path / "lattice.py").read_text() == "mine"
    assert "-mine\n" in workshop("diff", "part9", "--yes")
    assert "Yours is kept as lattice-" in workshop("reset", "part9")
    assert [path.read_text() for path in tmp_path.glob("lattice-*.py")] == ["mine"]
    assert "is now the solution of part9" in workshop("solution", "part9", "--write", "--yes")
    assert (tmp_path / "lattice.py").read_bytes() == PART.solution.read_bytes()

    assert "there is no recording of lattice.py as it first came" in workshop("check", "part9", "--answer", "1", code=1)
    assert "lattice.py takes no config" in workshop(
        "check", "part9", "--answer", "1", "--config", str(project / "configs" / "example_config.py"), code=2
    )
    assert "part3" in workshop("start", "part3")
    assert (tmp_path / "train.py").read_bytes() == (project / "train.py").read_bytes()
