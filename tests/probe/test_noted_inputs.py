"""What is noted of a sparse batch is what is noted of the same one with its zeros."""

import pytest
import torch

from workshop.probe import noted_inputs
from workshop.probe.batch_use import is_same
from workshop.probe.noted_inputs import NotedInputs, strided

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR")

SPARSE = [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr]


def batch() -> torch.Tensor:
    return torch.randn(8, 300, generator=torch.Generator().manual_seed(0)).relu()


@pytest.mark.parametrize("to_sparse", SPARSE)
def test_a_sparse_batch_is_noted_as_it_is_with_its_zeros(to_sparse: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_inputs, "MAX_NOTED", 10**6)  # all rows, and not some by chance
    of_dense, of_sparse = NotedInputs(batch()), NotedInputs(to_sparse(batch()))
    assert of_sparse.fetch() == of_dense.fetch()


@pytest.mark.parametrize("to_sparse", SPARSE)
def test_of_a_sparse_batch_with_too_many_zeros_the_others_are_noted(
    to_sparse: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noted_inputs, "MAX_WITH_ZEROS", 1000)
    values = strided(to_sparse(batch()))
    assert values.equal(batch()[batch() != 0])
    assert NotedInputs(to_sparse(batch())).fetch()


@pytest.mark.parametrize("to_sparse", SPARSE)
def test_sparse_tensors_are_the_same_if_their_values_are(to_sparse: type) -> None:
    one = to_sparse(batch())
    assert is_same(one, one)
    assert is_same(one, to_sparse(batch()))
    assert not is_same(one, to_sparse(batch() + 1))
    assert not is_same(one, batch())
