"""Tests that matrices are drawn from Haar's measure on SU(3): unitary, determinant 1, uniform and independent.

The moments are those of F. Mezzadri, arXiv:math-ph/0609050, and P. Diaconis and M. Shahshahani, On the eigenvalues of
random matrices (1994): of SU(n) and U(n), E |tr U|^2k = k! for k <= n; of SU(3) alone, E (tr U)^3 = 1, as the product
of three fundamental representations holds the trivial one once.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise

import torch
from torch import Tensor

MAX_ERROR = 1e-5
"""The largest error of an entry of U U^H - 1, and of the determinant; rounding to complex64 makes a tenth of it."""

MAX_DEVIATIONS = 5.5
"""The number of standard errors that a mean may be off; of honest draws, one mean in 26 million is off by more."""

MAX_EQUAL = 1e-3
"""The share of matrices that may have the same trace as another one; of honest draws, fewer than 1e-4 do."""


def complaints(batches: Sequence[Tensor]) -> Iterator[str]:
    """Yield the first thing that is wrong with the links of some steps, each a complex tensor (fields, ..., 3, 3)."""
    if not batches:
        return
    for batch in batches:
        if batch.shape[-2:] != (3, 3) or not batch.is_complex():
            yield f"what enters the model is no field of complex 3 x 3 matrices: {batch.dtype}, {tuple(batch.shape)}"
            return
    links = [batch.to(torch.complex128) for batch in batches]
    matrices = torch.cat([each.flatten(0, -3) for each in links])
    found = chain(_not_special_unitary(links), _repeated(links), _not_uniform(matrices), _dependent(links))
    yield from islice(found, 1)


def _not_special_unitary(links: Sequence[Tensor]) -> Iterator[str]:
    error = max(float((each @ each.mH - torch.eye(3)).abs().max()) for each in links)
    if not error <= MAX_ERROR:  # nan, too
        which = f"of a step's {links[0].shape[:-2].numel()} matrices"
        yield f"links are not unitary: {which}, U U^H is off 1 by {error:.1e}; asked is {MAX_ERROR:g}"
    error = max(float((torch.linalg.det(each) - 1).abs().max()) for each in links)
    if not error <= MAX_ERROR:
        yield f"links are not of SU(3): a determinant is off 1 by {error:.1e}; asked is {MAX_ERROR:g}"


def _repeated(links: Sequence[Tensor]) -> Iterator[str]:
    """Find matrices that equal one of another place or step, or its conjugate, or either times a cube root of 1."""
    trace = torch.cat([torch.einsum("...ii", each).flatten() for each in links])
    third = 2 * torch.pi / 3
    angle = ((trace.angle() + third / 2) % third - third / 2).abs()  # the same for all of these
    values = torch.stack([trace.abs() * angle.cos(), trace.abs() * angle.sin()], 1)
    equal = 1 - len(torch.unique((values * 1e5).round(), dim=0)) / len(values)
    if equal > MAX_EQUAL:
        yield f"{equal:.0%} of the links of {len(links)} steps are not drawn: they are those of another place, or step"


def _dependent(links: Sequence[Tensor]) -> Iterator[str]:
    """Find quotients that are not uniform, as those of independent matrices are: of two steps, neighbours, halves."""
    for earlier, later in pairwise(links):
        for complaint in _not_uniform(earlier @ later.mH) if earlier.shape == later.shape else ():
            yield f"the links of one step depend on those of another: of their quotients, {complaint}"
    for each in links:
        for axis in range(each.ndim - 2):
            size, half = each.shape[axis], each.shape[axis] // 2
            for distance, count in ((1, size - 1), (half, half)):
                quotients = each.narrow(axis, 0, count) @ each.narrow(axis, distance, count).mH
                for complaint in _not_uniform(quotients):
                    yield f"the links of a step depend on each other: of quotients along axis {axis}, {complaint}"


def _not_uniform(matrices: Tensor) -> Iterator[str]:
    """Find means that differ from those of Haar's measure; each is a mean over matrices, one at a time."""
    trace = torch.einsum("...ii", matrices).flatten()
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
            yield f"{name} is {mean:.3f} +- {error:.3f}; of links drawn from Haar's measure on SU(3) it is {right:.3g}"
