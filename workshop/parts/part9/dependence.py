"""Tests that links are independent of each other: all pairs of places, and products of neighbours.

For independent links drawn from Haar's measure, each entry of a mean over N matrices has the variance 1 / (3 N), and
each mean product of an entry with one of another link 1 / (9 N): E U_ij U*_kl = 1/3 if ij = kl, else 0. Summed over
entries, and divided by that variance, the squares follow a gamma distribution; its tail gives the thresholds.
"""

from collections.abc import Iterator
from itertools import combinations, product

import torch
from torch import Tensor

from workshop.judge.reasons import Reason, ReasonKind

MAX_CORRELATION = 110.0
"""Statistic, at most, of two places, for honest draws of gamma(27). A share p of N pairs adds 3 N p^2 to it."""

MAX_PRODUCT = 65.0
"""Statistic, at most, of a product of links, for honest draws of gamma(9). A share p of N products adds 9 N p^2."""

MIN_SHARE_OF_LARGEST = 0.999
"""Share, at least, of the largest statistic: of products that differ by rounding only, as from an adjoint, the first
is named."""

MAX_STEPS = 64
"""Fields or steps, at most, that are correlated with each other at a time."""

MAX_QUADRUPLES = 512
"""Quadruples of links, at most, whose products are averaged, evenly spaced."""

FORMS = {"U{}": lambda u: u, "U{}^H": lambda u: u.mH, "U{}*": torch.conj, "U{}^T": lambda u: u.mT}
"""What a link may be replaced by in a product."""


class DependenceReason(ReasonKind):
    """What is said of links that depend on each other."""

    CORRELATED = (
        "the links depend on each other: those of direction {nu} on those of direction {mu}, {steps} {axis}s and "
        "{sites} sites away"
    )
    PRODUCT_NOT_UNIFORM = "the links depend on each other: of {name}, {product} is not uniform"


def dependent(links: Tensor, axis: str) -> Iterator[Reason]:
    """Yield how the links of a tensor (fields or steps, 4 directions, sites ..., 3, 3) depend on each other.

    `axis` says what the first dimension is: "field" or "step".
    """
    links = links.to(torch.complex64)
    for some in links.split(MAX_STEPS):
        for offset, mu, nu in _correlated(some):
            yield DependenceReason.CORRELATED(nu=nu, mu=mu, steps=offset[0], axis=axis, sites=offset[1:])
    for name, quadruples in _quadruples(links, axis):
        for word in _not_uniform(quadruples):
            yield DependenceReason.PRODUCT_NOT_UNIFORM(name=name, product=word)


def _correlated(links: Tensor) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Find offsets, and pairs of directions, at which links are a linear function of others or of their conjugates.

    All nine entries of each link are correlated with the diagonal of each other one: every row and column is in it. The
    Fourier transform takes all offsets at once, around the torus.
    """
    axes = (0, *range(2, links.ndim - 2))
    entries = links.movedim(1, 0).flatten(-2)  # direction, field, sites ..., entry
    count = entries[0, ..., 0].numel()
    dims = tuple(range(1, len(axes) + 1))
    transformed = torch.fft.fftn(entries, dim=dims)
    for others in (entries[..., ::4], entries[..., ::4].conj()):
        spectrum = torch.fft.fftn(others, dim=dims)
        for mu, nu in product(range(len(entries)), repeat=2):
            means = torch.fft.ifftn(
                spectrum[nu, ..., None, :] * transformed[mu, ..., None].conj(), dim=tuple(range(len(axes)))
            )
            statistic = 9 / count * means.abs().square().sum((-1, -2))
            if mu == nu:
                statistic[(0,) * len(axes)] = 0
            if statistic.max() > MAX_CORRELATION:
                where = torch.unravel_index(statistic.argmax(), statistic.shape)
                yield tuple(map(int, where)), mu, nu


def _quadruples(links: Tensor, axis: str) -> Iterator[tuple[str, Tensor]]:
    """Yield links that stand together, as (4, quadruples, 3, 3), and what they are called."""
    names = [f"four {axis}s", "the four directions of a site", *(f"a line along {mu}" for mu in range(links.ndim - 4))]
    for dimension, name in enumerate(names):
        if links.shape[dimension] >= 4:
            yield name, links.unfold(dimension, 4, 4).movedim(-1, 0).flatten(1, -3)
    for mu, nu in combinations(range(links.ndim - 4), 2):
        yield f"the squares in the plane {mu}{nu}", torch.stack(square(links, mu, nu)).flatten(1, -3)


def square(links: Tensor, mu: int, nu: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the four links of each square in a plane, in the order in which U V U^H V^H goes around it.

    `links` is a tensor (fields, 4 directions, sites ..., 3, 3); each of the four is (fields, sites ..., 3, 3).
    """
    first, second = links[:, mu], links[:, nu]
    return first, second.roll(-1, 1 + mu), first.roll(-1, 1 + nu), second


def _not_uniform(four: Tensor) -> Iterator[str]:
    """Find products of up to four of the matrices (4, quadruples, 3, 3) whose mean is not 0, as Haar's measure has it.

    One of the matrices comes once in the product, in any of its forms: the product is then uniform, whatever else is in
    it. All products of two are made; the mean of all products of two of these is a product of large matrices.
    """
    four = four[:, :: -(-four.shape[1] // MAX_QUADRUPLES)]
    count = four.shape[1]
    one = torch.eye(3, dtype=four.dtype).expand(1, count, 3, 3)
    letters = torch.cat([one, *(form(four) for form in FORMS.values())])
    names = ["", *(name.format(number) for name in FORMS for number in range(4))]
    number = torch.tensor([-1, *[*range(4)] * len(FORMS)])
    pairs = (letters[:, None] @ letters).flatten(0, 1)
    left, right = pairs.permute(0, 2, 1, 3).flatten(2).flatten(0, 1), pairs.permute(1, 2, 0, 3).flatten(2).flatten(0, 1)
    means = (left @ right / count).unflatten(0, (-1, 3)).unflatten(-1, (-1, 3))
    statistic = 3 * count * means.abs().square().sum((1, 3))
    uses = (number[:, None] == torch.arange(4)).long()
    of_pair = (uses[:, None] + uses).flatten(0, 1)
    statistic *= (of_pair[:, None] + of_pair == 1).any(-1)
    if statistic.max() > MAX_PRODUCT:
        as_large = statistic.flatten() > MIN_SHARE_OF_LARGEST * statistic.max()
        places = divmod(int(as_large.nonzero()[0]), len(pairs))
        yield " ".join(filter(None, (names[each] for place in places for each in divmod(place, len(names)))))
