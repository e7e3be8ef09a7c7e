"""Train a flow of SU(3) lattice gauge fields: small, real, and slow on a GPU.

    python lattice.py --steps 20

This is the file that you edit in part 9. Each step draws fields in which every link is a random SU(3) matrix, lets a
flow with one parameter deform them, and adjusts it so that the fields look as if Wilson's action had drawn them.

You may change how the links are drawn. You may not change what enters the model: on every step, `--batch-size` new
fields of complex64, each link drawn independently from Haar's measure on SU(3), the uniform distribution of that group.
The model, the action and the optimizer stay as well.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from tqdm import trange

from workshop.device import choose_device
from workshop.errors import plain_errors

SIDE = 4
"""The number of sites in each of 4 directions; a batch of fields is (batch, 4 directions, 4, 4, 4, 4 sites, 3, 3)."""

BETA = 1.0
"""The inverse coupling of Wilson's action."""


def haar_qr(gaussian: Tensor) -> Tensor:
    """Turn square matrices of complex normal values into unitary ones, uniformly distributed by Haar's measure.

    Q alone is not uniform: the algorithm chooses the phases on R's diagonal, which have to be moved over to Q. See
    F. Mezzadri, How to generate random matrices from the classical compact groups, arXiv:math-ph/0609050.
    """
    q, r = torch.linalg.qr(gaussian, mode="complete")
    diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
    return q * (diagonal / diagonal.abs()).unsqueeze(-2)


def draw_links(batch_size: int, device: torch.device) -> Tensor:
    """Draw fields in which each link is an independent SU(3) matrix: unitary, and with determinant 1."""
    shape = (batch_size, 4, SIDE, SIDE, SIDE, SIDE, 3, 3)
    unitary = haar_qr(torch.randn(shape, dtype=torch.complex64, device=device))
    return unitary / torch.linalg.det(unitary)[..., None, None] ** (1 / 3)


def ahead(field: Tensor, direction: int, sites: int = 1) -> Tensor:
    """Return the values that a field (batch, 4, 4, 4, 4, 3, 3) has some sites ahead of each site, around the torus."""
    return torch.roll(field, -sites, 1 + direction)


def plaquettes(links: Tensor, mu: int, nu: int) -> Tensor:
    """Return the product of the links around each square in a plane, from its corner along mu, nu, and back."""
    first, second = links[:, mu], links[:, nu]
    return first @ ahead(second, mu) @ ahead(first, nu).mH @ second.mH


def plaquettes_below(links: Tensor, mu: int, nu: int) -> Tensor:
    """Return the product around the square on the other side of the link along mu, from the beginning of that link."""
    first, second = links[:, mu], ahead(links[:, nu], nu, -1)
    return first @ ahead(second, mu).mH @ ahead(first, nu, -1).mH @ second


def squares_around(links: Tensor) -> Tensor:
    """Return the sum of the six plaquettes that begin with each link."""
    sums = []
    for mu in range(4):
        others = [nu for nu in range(4) if nu != mu]
        sums.append(sum(plaquettes(links, mu, nu) + plaquettes_below(links, mu, nu) for nu in others))
    return torch.stack(sums, 1)


def traces(matrices: Tensor) -> Tensor:
    """Return the real part of the trace, summed over all matrices of each field of a batch."""
    return torch.diagonal(matrices, dim1=-2, dim2=-1).real.flatten(1).sum(1)


def action(squares: Tensor) -> Tensor:
    """Return Wilson's action of each field: - beta / 3 Re tr P over all plaquettes P, each of which begins 4 times."""
    return -BETA / 3 * traces(squares) / 4


def to_algebra(matrices: Tensor) -> Tensor:
    """Return the antihermitian part without its trace: an element of the Lie algebra su(3)."""
    half = (matrices - matrices.mH) / 2
    trace = torch.diagonal(half, dim1=-2, dim2=-1).sum(-1)
    return half - trace[..., None, None] / 3 * torch.eye(3, device=matrices.device)


class Flow(nn.Module):
    """A flow that smooths fields along the gradient of their plaquettes, by a learnt amount at each step.

    It is the first order of M. Luescher, Trivializing maps, the Wilson flow and the HMC algorithm, arXiv:0907.5491.
    """

    def __init__(self, steps: int = 1) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.zeros(steps))

    def forward(self, links: Tensor) -> tuple[Tensor, Tensor]:
        """Return the `squares_around` of the smoothed fields, and the logarithm of the Jacobian for each field."""
        log_jacobian = torch.zeros(len(links), device=links.device)
        squares = squares_around(links)
        for rate in self.rates:
            links = torch.linalg.matrix_exp(-rate * to_algebra(squares)) @ links
            before, squares = squares, squares_around(links)
            # The flow's divergence at a link is -8/3 of its rate times Re tr of its squares, because the squares of
            # the generators add up to -4/3. The trapezoidal rule integrates it along the step.
            log_jacobian = log_jacobian - 8 / 3 * rate * (traces(before) + traces(squares)) / 2
        return squares, log_jacobian


class FreeEnergy(nn.Module):
    """The Kullback-Leibler divergence per link, up to a constant, of the flow's fields from Wilson's action."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = Flow()

    def forward(self, links: Tensor) -> Tensor:
        """Return an estimate of the divergence from a batch of fields."""
        squares, log_jacobian = self.flow(links)
        return (action(squares) - log_jacobian).mean() / (4 * SIDE**4)


def main(steps: int, batch_size: int, seed: int, device: torch.device) -> None:
    """Train the flow."""
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
    parser.add_argument("--steps", type=int, default=20, help="optimizer steps (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="fields in a batch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or cuda:1 (default: cuda, or cpu)")
    args = parser.parse_args()
    device = choose_device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return args.steps, args.batch_size, args.seed, device


if __name__ == "__main__":
    with plain_errors():
        main(*prepare())
