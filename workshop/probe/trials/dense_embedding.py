"""Sparse gradients of embeddings of which a step asks for few rows."""

from collections import defaultdict
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.cause import Extent, Moment, Results, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.observations import SettingMade
from workshop.probe.optimizers import parameters_of
from workshop.probe.phases import Phase
from workshop.probe.trials.copies import copied_optimizer, ensure_room
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import Passes, Watcher, watches_for

MAX_TOUCHED = 0.2
"""Share of the rows that a batch touches, at most, for sparse gradients to gain anything."""

Rows: TypeAlias = Mapping[nn.Embedding, list[torch.Tensor]]
"""The rows that a step has asked each embedding for, one tensor a call."""

SPARSE: dict[type[Optimizer], type[Optimizer] | None] = {
    torch.optim.Adam: torch.optim.SparseAdam,
    torch.optim.AdamW: torch.optim.SparseAdam,
    torch.optim.Adagrad: None,
    torch.optim.SGD: None,
}
"""The optimizers for sparse gradients in place of others; None for those that take them, with the same math."""


def _makes(made: SettingMade, name: str) -> bool:
    return made.function == "Embedding" and " x ".join(made.values[:2]) == name


DENSE_EMBEDDING = TriedCause(
    "dense-embedding",
    "A step touches few rows of an embedding ({about}), and each step fills, and goes over, the gradient of "
    "all rows: pass sparse=True to nn.Embedding, and its parameters to SparseAdam, SGD or Adagrad of "
    "torch.optim.",
    phases=(Phase.BACKWARD, Phase.OPTIMIZER),
    moment=Moment.WATCHING,
    extent=Extent.PASSES_OR_ALL,
    results=Results.SAME,
    other_results={
        "SparseAdam": "With SparseAdam, the results differ: it has no weight decay, and rows that no batch "
        "touches stay as they are, where Adam moves them on: see whether the loss still falls as it did."
    },
    is_asked_by=_makes,
)


@watches_for(DENSE_EMBEDDING)
class DenseEmbedding(Watcher):
    """Notes for which rows a step asks each embedding, and tries each optimizer once."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._rows: dict[nn.Embedding, list[torch.Tensor]] = defaultdict(list)

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Watch the embeddings of a module that the script calls."""
        self.hear(module, nn.Embedding, self._note, before=True)

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Try sparse gradients of its embeddings, once a whole step was seen."""
        if not self.steps or id(optimizer) in self.tried:
            return
        own = set(map(id, parameters_of(optimizer)))
        rows = {each: asked for each, asked in self._rows.items() if id(each.weight) in own}
        if rows:
            self.tried.add(id(optimizer))
            self.attempt(optimizer, rows)

    def attempt(self, optimizer: Optimizer, rows: Rows) -> None:
        """Try sparse gradients of the embeddings that this step has asked for rows."""
        largest_first = sorted(rows, key=lambda each: each.weight.numel(), reverse=True)
        sizes = ", ".join(f"{each.num_embeddings} x {each.embedding_dim}" for each in largest_first)

        def passes() -> Passes:
            ensure_room((each.weight for each in rows), 10)  # as of any optimizer
            return _passes(optimizer, rows)

        self.race(DENSE_EMBEDDING, passes, about=f"{sizes}; {type(optimizer).__name__}")

    def on_step_end(self, steps: int) -> None:
        """Begin with the next step."""
        super().on_step_end(steps)
        self._rows.clear()

    def _note(self, module: nn.Embedding, inputs: tuple[Any, ...]) -> None:
        learns = torch.is_grad_enabled() and module.weight.requires_grad
        if learns and inputs and isinstance(inputs[0], torch.Tensor):
            self._rows[module].append(inputs[0].detach().clone())


def _passes(optimizer: Optimizer, asked: Rows) -> Generator[Pass, None, str]:
    """Backward pass and step of the embeddings alone, with the gradient of the present step.

    Returns:
        The optimizer that was changed to; empty for one of the same kind.
    """
    kind = type(optimizer)
    groups = {each: group for group in optimizer.param_groups for each in group["params"]}
    tables = {embedding: rows for embedding, rows in asked.items() if _is_worth_it(embedding, rows, groups)}
    if kind not in SPARSE or not tables:
        raise NothingToTryError("no embedding of which a step touches few rows, or no optimizer for sparse gradients")
    other = SPARSE[kind]
    for each in tables:
        group = groups[each.weight]
        if other is None and (group.get("momentum") or group.get("weight_decay")):
            raise NothingToTryError(f"{kind.__name__} takes no sparse gradients with momentum or weight decay")
    yield _pass_of(tables, optimizer, None, is_sparse=False)
    yield _pass_of(tables, optimizer, other, is_sparse=True)
    return other.__name__ if other else ""


def _is_worth_it(embedding: nn.Embedding, rows: list[torch.Tensor], groups: Mapping[torch.Tensor, object]) -> bool:
    weight = embedding.weight
    if embedding.sparse or weight not in groups or weight.grad is None or weight.grad.is_sparse:
        return False
    return torch.cat([each.flatten() for each in rows]).unique().numel() < MAX_TOUCHED * len(weight)


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
