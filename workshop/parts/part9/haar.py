"""Tests that matrices are drawn from Haar's measure on SU(3): unitary, determinant 1, uniform and independent.

The moments are those of F. Mezzadri, arXiv:math-ph/0609050, and P. Diaconis and M. Shahshahani, On the eigenvalues of
random matrices (1994): of SU(n) and U(n), E |tr U|^2k = k! for k <= n; of SU(3) alone, E (tr U)^3 = 1, as the product
of three fundamental representations holds the trivial one once.

Whether links are independent of each other is asked of all pairs of places, and of products of neighbours. For links
drawn from Haar's measure, each entry of a mean over N matrices has the variance 1 / (3 N), and each mean product of an
entry with one of another link 1 / (9 N): E U_ij U*_kl = 1/3 if ij = kl, else 0. Summed over entries, and divided by
that variance, the squares follow a gamma distribution; its tail gives the thresholds.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, permutations, product

import torch
from torch import Tensor

from workshop.judge.reasons import Reason, ReasonKind

MAX_ERROR = 1e-5
"""Error, at most, of an entry of U U^H - 1, and of the determinant; rounding to complex64 makes a tenth of it."""

MAX_DEVIATIONS = 5.5
"""Standard errors, at most, by which a mean may be off.

Of honest draws, one mean in 26 million is off by more if it is normal. That of |tr U|^6 is not, if links are few: of
6144 of them, as one field of six steps has, it is off by more about once in 70 000 times.
"""

MAX_EQUAL = 1e-3
"""Share, at most, of matrices with the same trace as another one; of honest draws, fewer than 1e-4 have it."""

MAX_CORRELATION = 110.0
"""Statistic, at most, of two places, for honest draws of gamma(27). A share p of N pairs adds 3 N p^2 to it."""

MAX_PRODUCT = 65.0
"""Statistic, at most, of a product of links, for honest draws of gamma(9). A share p of N products adds 9 N p^2."""

MAX_STEPS = 64
"""Fields or steps, at most, that are correlated with each other at a time."""

MAX_QUADRUPLES = 512
"""Quadruples of links, at most, whose products are averaged, evenly spaced."""

FORMS = {"U{}": lambda u: u, "U{}^H": lambda u: u.mH, "U{}*": torch.conj, "U{}^T": lambda u: u.mT}
"""What a link may be replaced by in a product."""


class HaarReason(ReasonKind):
    """What is said of links that are not drawn from Haar's measure."""

    NO_FIELD = "what enters the model is no field of complex 3 x 3 matrices: {type}, {shape}"
    NOT_UNITARY = "links are not unitary: U U^H is off 1 by {error:.1e}; asked is {asked:g}"
    NOT_SPECIAL = "links are not of SU(3): a determinant is off 1 by {error:.1e}; asked is {asked:g}"
    LINKS_AGAIN = "{share:.0%} of the links are not drawn: they are those of another place, or step"
    SITES_AGAIN = (
        "{share:.0%} of the products of a site's links are not drawn: they are those of another place, or step"
    )
    SQUARES_AGAIN = "{share:.0%} of the products around squares are not drawn: they are those of another place, or step"
    QUOTIENTS_AGAIN = (
        "{share:.0%} of the quotients of neighbours are not drawn: they are those of another place, or step"
    )
    OTHER_MEAN = "{0} is {mean:.3f} +- {error:.3f}; of links drawn from Haar's measure on SU(3) it is {expected:.3g}"


class DependenceReason(ReasonKind):
    """What is said of links that depend on each other."""

    CORRELATED = (
        "the links depend on each other: those of direction {nu} on those of direction {mu}, {steps} {axis}s and "
        "{sites} sites away"
    )
    PRODUCT_NOT_UNIFORM = "the links depend on each other: of {name}, {product} is not uniform"


def complaints(steps: Sequence[Tensor], field: Sequence[Tensor] = ()) -> Iterator[Reason]:
    """Yield the first thing that is wrong with links.

    Args:
        steps: the links of some whole steps, each a complex tensor (fields, 4 directions, sites ..., 3, 3).
        field: those of one more field in each of many steps, (4 directions, sites ..., 3, 3).
    """
    seen = [*steps, *(each[None] for each in field)]
    for step in seen:
        if step.shape[1:] != (4, *seen[0].shape[2:6], 3, 3) or not step.is_complex():
            yield HaarReason.NO_FIELD(type=step.dtype, shape=tuple(step.shape))
            return
    of_axis = {"field": torch.cat(list(steps)) if steps else None, "step": torch.stack(list(field)) if field else None}
    blocks = {axis: links.to(torch.complex128) for axis, links in of_axis.items() if links is not None}
    links = list(blocks.values())
    found = chain(
        _not_special_unitary(links),
        _repeated(links),
        chain.from_iterable(_not_uniform(each.flatten(0, -3)) for each in links),
        chain.from_iterable(_dependent(each, axis) for axis, each in blocks.items()),
    )
    yield from islice(found, 1)


def _not_special_unitary(links: Sequence[Tensor]) -> Iterator[Reason]:
    error = max((float((each @ each.mH - torch.eye(3)).abs().max()) for each in links), default=0.0)
    if not error <= MAX_ERROR:  # nan, too
        yield HaarReason.NOT_UNITARY(error=error, asked=MAX_ERROR)
    error = max((float((torch.linalg.det(each) - 1).abs().max()) for each in links), default=0.0)
    if not error <= MAX_ERROR:
        yield HaarReason.NOT_SPECIAL(error=error, asked=MAX_ERROR)


def _repeated(links: Sequence[Tensor]) -> Iterator[Reason]:
    """Find matrices whose trace is that of another place or step, or its conjugate, or either times a cube root of 1.

    Links that are used again have the same traces; multiplied by one matrix from the left and another from the right,
    they leave the products in a site the same. Multiplied by one of a few matrices, they have few different quotients.
    Seen from another frame in each site, they leave the products around squares the same.
    """
    yield from _equal(HaarReason.LINKS_AGAIN, map(_traces, links))
    yield from _equal(HaarReason.SITES_AGAIN, map(_traces_of_sites, links))
    yield from _equal(HaarReason.SQUARES_AGAIN, map(_traces_of_squares, links))
    for axis in range(min((each.ndim - 2 for each in links), default=0)):
        pairs = (
            (each.narrow(axis, 0, size - 1), each.narrow(axis, 1, size - 1))
            for each in links
            if (size := each.shape[axis]) > 1
        )
        yield from _equal(HaarReason.QUOTIENTS_AGAIN, (_traces(one @ other.mH) for one, other in pairs))


def _equal(kind: HaarReason, traces: Iterable[Tensor]) -> Iterator[Reason]:
    """Count the matrices that have the same trace as another one."""
    trace = torch.cat([torch.zeros(1), *traces])
    third = 2 * torch.pi / 3
    angle = ((trace.angle() + third / 2) % third - third / 2).abs()  # the same for all of these
    real, imaginary = ((trace.abs() * part * 1e5).round().long() for part in (angle.cos(), angle.sin()))
    equal = 1 - len(torch.unique(real << 32 | imaginary)) / len(trace)
    if equal > MAX_EQUAL:
        yield kind(share=equal)


def _traces(matrices: Tensor) -> Tensor:
    return torch.einsum("...ii", matrices).flatten()


def _traces_of_sites(links: Tensor) -> Tensor:
    """Return tr U V^H W X^H of each site's four links, in all orders: directions may be exchanged."""
    first, *others = links.unbind(1)
    return torch.cat([_traces(first @ u.mH @ v @ w.mH) for u, v, w in permutations(others)])


def _traces_of_squares(links: Tensor) -> Tensor:
    """Return tr U V U^H V^H around each square of four links: no change of the frames in the sites changes it."""
    squares = combinations(range(links.ndim - 4), 2)
    return torch.cat([_traces(a @ b @ c.mH @ d.mH) for a, b, c, d in (_square(links, *plane) for plane in squares)])


def _not_uniform(matrices: Tensor) -> Iterator[Reason]:
    """Find means that differ from those of Haar's measure; each is a mean over matrices, one at a time."""
    trace = _traces(matrices)
    size = trace.abs() ** 2
    entries = (matrices.abs() ** 2).flatten(0, -3)
    means = {
        "E |tr U|^2": (size, 1.0),
        "E |tr U|^4": (size**2, 2.0),
        "E |tr U|^6": (size**3, 6.0),
        "E (tr U)^3": ((trace**3).real, 1.0),
        "E Re tr U": (trace.real, 0.0),
        "E Im tr U": (trace.imag, 0.0),
    }
    means |= {f"E |U_{row}{column}|^2": (entries[:, row, column], 1 / 3) for row in range(3) for column in range(3)}
    for name, (values, right) in means.items():
        mean, error = float(values.mean()), float(values.std()) / len(values) ** 0.5
        if not abs(mean - right) <= MAX_DEVIATIONS * error + 1e-9:
            yield HaarReason.OTHER_MEAN(name, mean=mean, error=error, expected=right)


def _dependent(links: Tensor, axis: str) -> Iterator[Reason]:
    """Yield how the links of a tensor (fields or steps, 4 directions, sites ..., 3, 3) depend on each other.

    `axis` says what the first dimension is: "field" or "step".
    """
    links = links.to(torch.complex64)
    for some in links.split(MAX_STEPS):
        for offset, mu, nu in _correlated(some):
            yield DependenceReason.CORRELATED(nu=nu, mu=mu, steps=offset[0], axis=axis, sites=offset[1:])
    for name, quadruples in _quadruples(links, axis):
        for word in _products(quadruples):
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
        yield f"the squares in the plane {mu}{nu}", torch.stack(_square(links, mu, nu)).flatten(1, -3)


def _square(links: Tensor, mu: int, nu: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the four links of each square in a plane, in the order in which U V U^H V^H goes around it.

    `links` is a tensor (fields, 4 directions, sites ..., 3, 3); each of the four is (fields, sites ..., 3, 3).
    """
    first, second = links[:, mu], links[:, nu]
    return first, second.roll(-1, 1 + mu), first.roll(-1, 1 + nu), second


def _products(four: Tensor) -> Iterator[str]:
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
        # Of products that differ by rounding only, as from an adjoint, the first is named.
        as_large = statistic.flatten() > 0.999 * statistic.max()
        places = divmod(int(as_large.nonzero()[0]), len(pairs))
        yield " ".join(filter(None, (names[each] for place in places for each in divmod(place, len(names)))))
