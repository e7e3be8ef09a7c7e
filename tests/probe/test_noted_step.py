"""What is noted of a sparse batch is what is noted of the same one with its zeros."""

import pytest
import torch

from workshop.probe import noted_step
from workshop.probe.batch_use import is_same
from workshop.probe.noted_step import NotedInputs

pytestmark = pytest.mark.filterwarnings("ignore:(Sparse|The PyTorch API of nested)")

SPARSE = [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_csc]


def batch() -> torch.Tensor:
    return torch.randn(8, 300, generator=torch.Generator().manual_seed(0)).relu()


@pytest.mark.parametrize("to_sparse", SPARSE)
def test_a_sparse_batch_is_noted_as_it_is_with_its_zeros(to_sparse: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_step, "MAX_NOTED", 10**6)  # all rows, and not some by chance
    of_dense, of_sparse = NotedInputs(batch()), NotedInputs(to_sparse(batch()))
    assert of_sparse.fetch() == of_dense.fetch()


def test_what_cannot_be_looked_at_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_step, "MAX_WITH_ZEROS", 1000)
    with pytest.raises(ValueError, match="a sparse tensor of 2,400 values enters the model, too many to look at"):
        NotedInputs(batch().to_sparse())
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
        with pytest.raises(ValueError, match="a nested tensor"):
            NotedInputs(nested)


@pytest.mark.parametrize("to_sparse", SPARSE)
def test_sparse_tensors_are_the_same_if_their_values_are(to_sparse: type) -> None:
    one = to_sparse(batch())
    assert is_same(one, one)
    assert is_same(one, to_sparse(batch()))
    assert not is_same(one, to_sparse(batch() + 1))
    assert not is_same(one, to_sparse(batch().flip(0)))
    assert not is_same(one, batch())
