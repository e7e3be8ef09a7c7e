"""Train a flow of SU(3) lattice gauge fields: small, real, and slow on a GPU.

    python lattice.py --steps 20

This is the file that you edit in part 9. Each step draws fields in which every link is a random SU(3) matrix, lets a
flow with one parameter deform them, and adjusts it so that the fields look as if Wilson's action had drawn them.

Yours to change is how the links are drawn. What enters the model stays: on every step `--batch-size` new fields of
complex64, each link drawn by itself from Haar's measure on SU(3), the uniform distribution of that group. The model,
the action and the optimizer stay, too.
"""

import argparse

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


def draw_links(batch_size: int, device: torch.device) -> Tensor:
    """Draw fields in which each link is an SU(3) matrix of its own: unitary, and with determinant 1."""
    shape = (batch_size, 4, SIDE, SIDE, SIDE, SIDE, 3, 3)
    unitary = haar_qr(torch.randn(shape, dtype=torch.complex64, device=device))
    return unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)


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


def main(steps: int, batch_size: int, seed: int, device: torch.device) -> None:
    """Train."""
    torch.manual_seed(seed)
    model = FreeEnergy().to(device)
    optimizer = AdamW(model.parameters(), lr=0.005)
    progress = trange(steps, desc="Step")
    for _ in progress:
        links = draw_links(batch_size, device)
        optimizer.zero_grad()
        loss = model(links)
        loss.backward()
        optimizer.step()
        progress.set_postfix_str(f"free energy {loss.item():.4f}")
    print(f"Rates {', '.join(f'{rate:.4f}' for rate in model.flow.rates.tolist())}; free energy {loss.item():.4f}")


def prepare() -> tuple[int, int, int, torch.device]:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a flow of lattice gauge fields, slowly.")
    parser.add_argument("--steps", type=int, default=20, help="of the optimizer (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="fields in a batch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or cuda:1 (default: cuda, or cpu)")
    args = parser.parse_args()
    return (
        args.steps,
        args.batch_size,
        args.seed,
        choose_device(args.device or ("cuda" if torch.cuda.is_available() else "cpu")),
    )


if __name__ == "__main__":
    with plain_errors():
        main(*prepare())
