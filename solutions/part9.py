"""lattice.py after part 9: the links are drawn by a closed form; or as the story goes, by QR, on the CPU."""

import argparse
import math

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from tqdm import trange

from workshop.device import choose_device
from workshop.errors import plain_errors

SIDE = 4
"""Sites in each of the four directions. A batch of fields is a tensor (batch, 4 directions, 4, 4, 4, 4 sites, 3, 3)."""

BETA = 1.0
"""Inverse coupling, of Wilson's action."""


def haar_qr(gaussian: Tensor) -> Tensor:
    """Turn each square matrix of complex normal values into a unitary one, uniformly distributed: by Haar's measure.

    Q alone is not: the phases on R's diagonal are the algorithm's choice, and have to be moved over to it. See
    F. Mezzadri, How to generate random matrices from the classical compact groups, arXiv:math-ph/0609050.
    """
    q, r = torch.linalg.qr(gaussian, mode="complete")
    diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
    return q * (diagonal / diagonal.abs()).unsqueeze(-2)


def draw_by_qr(batch_size: int, device: torch.device) -> Tensor:
    """As it was: on a GPU, QR decomposes one small matrix after the other."""
    unitary = haar_qr(torch.randn(shape_of(batch_size), dtype=torch.complex64, device=device))
    return unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)


def draw_on_cpu(batch_size: int, device: torch.device) -> Tensor:
    """The same, where one thing after the other is quick; only what comes out goes to the GPU."""
    return draw_by_qr(batch_size, torch.device("cpu")).to(device)


def draw_closed_form(batch_size: int, device: torch.device) -> Tensor:
    """What QR does to the columns of a matrix, written down, for all matrices at once.

    Two columns of normal values, made orthonormal, are spread evenly; a third one that makes the determinant 1 is then
    no longer a matter of chance. Real and imaginary parts and the components are rows of their own, so that each
    operation is one on 65 536 values that lie side by side.
    """
    shape = shape_of(batch_size)
    columns = torch.randn(2, 2, 3, math.prod(shape[:-2]), device=device)  # column, part, component, matrix
    first, second = columns / lengths(columns)
    for _ in range(2):  # once leaves rounding errors, large where the two are close to each other
        second = second - share(first, second)
        second = second / lengths(second)
    matrix = [torch.complex(*first), torch.complex(*second)]
    matrix.append(torch.linalg.cross(*matrix, dim=0).conj())
    return torch.stack(matrix, -1).movedim(0, 1).reshape(shape)


def lengths(vectors: Tensor) -> Tensor:
    """Of complex vectors (..., 2 parts, 3 components, many), as (..., 1, 1, many)."""
    return (vectors**2).sum((-3, -2), keepdim=True).sqrt()


def share(direction: Tensor, vectors: Tensor) -> Tensor:
    """What complex vectors (2 parts, 3 components, many) have of a direction of length 1, as a vector."""
    (x, y), (u, v) = direction, vectors
    real, imaginary = (x * u + y * v).sum(0), (x * v - y * u).sum(0)
    return torch.stack([x * real - y * imaginary, x * imaginary + y * real])


DRAW = {"closed-form": draw_closed_form, "cpu": draw_on_cpu, "qr": draw_by_qr}


def shape_of(batch_size: int) -> tuple[int, ...]:
    """Of a batch of fields."""
    return batch_size, 4, SIDE, SIDE, SIDE, SIDE, 3, 3


def ahead(field: Tensor, direction: int, sites: int = 1) -> Tensor:
    """For each site, what the field (batch, 4, 4, 4, 4, 3, 3) has so many sites further on; the lattice is a torus."""
    return torch.roll(field, -sites, 1 + direction)


def plaquettes(links: Tensor, mu: int, nu: int) -> Tensor:
    """The product of the links around each square in a plane, from its corner along mu, nu, and back."""
    first, second = links[:, mu], links[:, nu]
    return first @ ahead(second, mu) @ ahead(first, nu).mH @ second.mH


def plaquettes_below(links: Tensor, mu: int, nu: int) -> Tensor:
    """The same around the square on the other side of the link along mu, from where the link begins, too."""
    first, second = links[:, mu], ahead(links[:, nu], nu, -1)
    return first @ ahead(second, mu).mH @ ahead(first, nu, -1).mH @ second


def squares_around(links: Tensor) -> Tensor:
    """For each link, the sum of the six plaquettes that begin with it."""
    sums = []
    for mu in range(4):
        others = [nu for nu in range(4) if nu != mu]
        sums.append(sum(plaquettes(links, mu, nu) + plaquettes_below(links, mu, nu) for nu in others))
    return torch.stack(sums, 1)


def traces(matrices: Tensor) -> Tensor:
    """For each field of a batch, the real part of the trace, summed over all of its matrices."""
    return torch.diagonal(matrices, dim1=-2, dim2=-1).real.flatten(1).sum(1)


def action(squares: Tensor) -> Tensor:
    """Wilson's: for each field, - beta / 3 Re tr P, summed over its plaquettes P; each begins with four links."""
    return -BETA / 3 * traces(squares) / 4


def to_algebra(matrices: Tensor) -> Tensor:
    """The antihermitian part without its trace: an element of the Lie algebra su(3)."""
    half = (matrices - matrices.mH) / 2
    trace = torch.diagonal(half, dim1=-2, dim2=-1).sum(-1)
    return half - trace[..., None, None] / 3 * torch.eye(3, device=matrices.device)


class Flow(nn.Module):
    """Smooths fields along the gradient of their plaquettes, by a learnt amount at each step.

    The first order of M. Luescher, Trivializing maps, the Wilson flow and the HMC algorithm, arXiv:0907.5491.
    """

    def __init__(self, steps: int = 1) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.zeros(steps))

    def forward(self, links: Tensor) -> tuple[Tensor, Tensor]:
        """What `squares_around` finds in the smoothed fields, and for each field the logarithm of the Jacobian."""
        log_jacobian = torch.zeros(len(links), device=links.device)
        squares = squares_around(links)
        for rate in self.rates:
            links = torch.linalg.matrix_exp(-rate * to_algebra(squares)) @ links
            before, squares = squares, squares_around(links)
            # The flow's divergence at a link is -8/3 of its rate times Re tr of its squares, as the squares of the
            # generators add up to -4/3. Along the step it is integrated by the trapezoidal rule.
            log_jacobian = log_jacobian - 8 / 3 * rate * (traces(before) + traces(squares)) / 2
        return squares, log_jacobian


class FreeEnergy(nn.Module):
    """How far the flow's fields are from those of Wilson's action: their Kullback-Leibler divergence, per link.

    It is so up to a constant; the less, the better.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flow = Flow()

    def forward(self, links: Tensor) -> Tensor:
        """Its estimate from a batch of fields."""
        squares, log_jacobian = self.flow(links)
        return (action(squares) - log_jacobian).mean() / (4 * SIDE**4)


def main(steps: int, batch_size: int, seed: int, device: torch.device, draw: str = "closed-form") -> None:
    """Train."""
    torch.manual_seed(seed)
    model = FreeEnergy().to(device)
    optimizer = AdamW(model.parameters(), lr=0.005)
    progress = trange(steps, desc="Step")
    for _ in progress:
        links = DRAW[draw](batch_size, device)
        optimizer.zero_grad()
        loss = model(links)
        loss.backward()
        optimizer.step()
        progress.set_postfix_str(f"free energy {loss.item():.4f}")
    print(f"Rates {', '.join(f'{rate:.4f}' for rate in model.flow.rates.tolist())}; free energy {loss.item():.4f}")


def prepare() -> tuple[int, int, int, torch.device, str]:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a flow of lattice gauge fields, slowly.")
    parser.add_argument("--steps", type=int, default=20, help="of the optimizer (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="fields in a batch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or cuda:1 (default: cuda, or cpu)")
    parser.add_argument("--draw", choices=DRAW, default="closed-form", help="how (default: %(default)s)")
    args = parser.parse_args()
    return (
        args.steps,
        args.batch_size,
        args.seed,
        choose_device(args.device or ("cuda" if torch.cuda.is_available() else "cpu")),
        args.draw,
    )


if __name__ == "__main__":
    with plain_errors():
        main(*prepare())
