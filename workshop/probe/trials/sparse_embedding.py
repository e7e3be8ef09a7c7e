"""Sparse gradients of embeddings of which a batch touches a few rows."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.trials.copies import copied_optimizer
from workshop.probe.trials.trial_race import NothingToTryError, Pass

FEW_ROWS = 0.2
"""A batch that touches a larger share of the rows gains nothing by sparse gradients."""

MIN_VALUES = 10_000
"""Smaller embeddings are not worth it."""

Rows: TypeAlias = Mapping[nn.Embedding | nn.EmbeddingBag, list[torch.Tensor]]
"""The rows that a step has asked each embedding for, one tensor a call."""

SPARSE: dict[type[Optimizer], type[Optimizer] | None] = {
    torch.optim.Adam: torch.optim.SparseAdam,
    torch.optim.AdamW: torch.optim.SparseAdam,
    torch.optim.Adagrad: None,
    torch.optim.SGD: None,
}
"""The optimizers for sparse gradients in place of others; None for those that take them, with the same math."""


def sparse_embedding(optimizer: Optimizer, asked: Rows) -> Iterator[Pass]:
    """Backward pass and step of the embeddings alone, with the gradient of the present step."""
    kind = type(optimizer)
    groups = {each: group for group in optimizer.param_groups for each in group["params"]}
    tables = {embedding: rows for embedding, rows in asked.items() if _is_worth_it(embedding, rows, groups)}
    if kind not in SPARSE or not tables:
        raise NothingToTryError("no embedding of which a step touches few rows, or no optimizer for sparse gradients")
    for each in tables:
        group = groups[each.weight]
        if SPARSE[kind] is None and (group.get("momentum") or group.get("weight_decay")):
            raise NothingToTryError(f"{kind.__name__} takes no sparse gradients with momentum or weight decay")
    yield _pass_of(tables, optimizer, None, is_sparse=False)
    yield _pass_of(tables, optimizer, SPARSE[kind], is_sparse=True)


def _is_worth_it(
    embedding: nn.Embedding | nn.EmbeddingBag, rows: list[torch.Tensor], groups: Mapping[torch.Tensor, object]
) -> bool:
    weight = embedding.weight
    if embedding.sparse or weight not in groups or weight.grad is None or weight.grad.is_sparse:
        return False
    if weight.numel() < MIN_VALUES:
        return False
    return torch.cat([each.flatten() for each in rows]).unique().numel() < FEW_ROWS * len(weight)


def _pass_of(tables: Rows, optimizer: Optimizer, kind: type[Optimizer] | None, is_sparse: bool) -> Pass:
    """A pass on copies of the tables: the gradients of their outputs are those of a sum."""
    weights = {each.weight: nn.Parameter(each.weight.detach().clone()) for each in tables}
    copied = copied_optimizer(optimizer, weights, kind)

    def run() -> None:
        outputs = [
            nn.functional.embedding(rows, weights[each.weight], sparse=is_sparse)
            for each, asked in tables.items()
            for rows in asked
        ]
        torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
        copied.step()
        copied.zero_grad()

    return run
