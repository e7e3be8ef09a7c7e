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
from workshop.probe.watchers.watcher import Watcher


class EmbeddingRows(Watcher):
    """Watches embeddings, and tries each optimizer once."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._handles: dict[nn.Module, Any] = {}
        self._rows: dict[nn.Embedding, list[torch.Tensor]] = defaultdict(list)
        self._steps = 0
        self._tried: set[int] = set()

    def end(self) -> None:
        """Watch no more."""
        for handle in self._handles.values():
            handle.remove()

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Watch the embeddings of a module that the script calls."""
        for each in module.modules():
            if isinstance(each, nn.Embedding) and each not in self._handles and each.weight.requires_grad:
                self._handles[each] = each.register_forward_pre_hook(ModuleHook(self._note))

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Try sparse gradients of its embeddings, once a whole step was seen."""
        if not self._steps or id(optimizer) in self._tried:
            return
        own = set(map(id, parameters_of(optimizer)))
        rows = {each: asked for each, asked in self._rows.items() if id(each.weight) in own}
        if rows:
            self._tried.add(id(optimizer))
            attempt_sparse(optimizer, rows, self.events)

    def on_step_end(self, steps: int) -> None:
        """Begin with the next step."""
        self._steps += 1
        self._rows.clear()

    def _note(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled() and inputs and isinstance(inputs[0], torch.Tensor):
            self._rows[module].append(inputs[0].detach().clone())
