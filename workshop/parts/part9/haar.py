"""Tests that matrices are drawn from Haar's measure on SU(3): unitary, determinant 1, uniform and independent.

The moments are those of F. Mezzadri, arXiv:math-ph/0609050, and P. Diaconis and M. Shahshahani, On the eigenvalues of
random matrices (1994): of SU(n) and U(n), E |tr U|^2k = k! for k <= n; of SU(3) alone, E (tr U)^3 = 1, as the product
of three fundamental representations holds the trivial one once.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, permutations

import torch
from torch import Tensor

from workshop.judge.reasons import Reason, ReasonKind
from workshop.parts.part9.dependence import dependent, square

MAX_ERROR = 1e-5
"""Error, at most, of an entry of U U^H - 1, and of the determinant; rounding to complex64 makes a tenth of it."""

MAX_DEVIATIONS = 5.5
"""Standard errors, at most, by which a mean may be off.

Of honest draws, one mean in 26 million is off by more if it is normal. That of |tr U|^6 is not, if links are few: of
6144 of them, as one field of six steps has, it is off by more about once in 70 000 times.
"""

MAX_EQUAL = 1e-3
"""Share, at most, of matrices with the same trace as another one; of honest draws, fewer than 1e-4 have it."""


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
        chain.from_iterable(dependent(each, axis) for axis, each in blocks.items()),
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
    return torch.cat([_traces(a @ b @ c.mH @ d.mH) for a, b, c, d in (square(links, *plane) for plane in squares)])


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
