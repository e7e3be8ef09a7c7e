"""Notes for which rows a step asks each embedding, and tries sparse gradients of those of which it asks for few."""

from collections import defaultdict
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.event_file import EventFile
from workshop.probe.model_hooks import ModuleHook
from workshop.probe.optimizers import parameters_of
from workshop.probe.trials import attempt_sparse


class EmbeddingRows:
    """Watches embeddings between `begin` and `end`, and tries each optimizer once."""

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self.is_watching = False
        self._handles: dict[nn.Module, Any] = {}

    def begin(self) -> None:
        """Begin to watch."""
        self.end()
        self.is_watching = True
        self._rows: dict[nn.Embedding, list[torch.Tensor]] = defaultdict(list)
        self._steps = 0
        self._tried: set[int] = set()

    def end(self) -> None:
        """Watch no more, and keep nothing."""
        if self.is_watching:
            self.is_watching = False
            while self._handles:
                self._handles.popitem()[1].remove()
            self._rows.clear()

    def before_forward(self, model: nn.Module) -> None:
        """Watch the embeddings of a module that the script calls."""
        if self.is_watching:
            for each in model.modules():
                if isinstance(each, nn.Embedding) and each not in self._handles and each.weight.requires_grad:
                    self._handles[each] = each.register_forward_pre_hook(ModuleHook(self._note))

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Try sparse gradients of its embeddings, once a whole step was seen."""
        if not self.is_watching or not self._steps or id(optimizer) in self._tried:
            return
        own = set(map(id, parameters_of(optimizer)))
        rows = {each: asked for each, asked in self._rows.items() if id(each.weight) in own}
        if rows:
            self._tried.add(id(optimizer))
            attempt_sparse(optimizer, rows, self._events)

    def on_step_end(self) -> None:
        """Begin with the next step."""
        if self.is_watching:
            self._steps += 1
            self._rows.clear()

    def _note(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled() and inputs and isinstance(inputs[0], torch.Tensor):
            self._rows[module].append(inputs[0].detach().clone())
