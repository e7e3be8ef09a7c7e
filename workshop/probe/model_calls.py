"""The calls of models in a training: of the first one that is trained, and of those that are validated."""

from typing import Any

import torch
from torch import nn

from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import is_compiled
from workshop.probe.listener import Listener
from workshop.probe.model_hooks import is_trained
from workshop.probe.phases import Phase


class ModelCalls(Listener):
    """Tells the other listeners of these calls, and how often a step makes them.

    Attributes:
        model: the first model that is trained; None before its first call.
        anomaly_mode: whether the last backward pass ran in torch's anomaly mode, because the script wants it.
    """

    def __init__(self, hooks: TrainingHooks) -> None:
        self._hooks = hooks
        self.goes_on_in_fork()

    def goes_on_in_fork(self) -> bool:
        """Begin to count in this process."""
        self.model: nn.Module | None = None
        self.anomaly_mode = False
        self._steps = self._calls = self._validated = 0
        return True

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Tell of the call of a model."""
        if self.model is None and is_trained(module):
            self.model = module
        if self._hooks.clock.counted_phase == Phase.VALIDATION:
            times = self._validated / max(self._steps, 1)
            self._validated += 1
            self._hooks.audience.tell("before_validation", module, inputs, options, times)
        if module is self.model and torch.is_grad_enabled():
            times = self._calls / max(self._steps, 1)
            self._calls += 1
            self._hooks.audience.tell("before_model", module, inputs, options, times)

    def on_backward(self, tensors: Any) -> None:
        """Look for anomaly mode, which a script may switch on for this pass alone; watchers have left theirs by now."""
        self.anomaly_mode = torch.is_anomaly_enabled()

    def on_step_end(self, steps: int) -> None:
        """Count the step."""
        self._steps += steps

    def is_compiled(self) -> bool:
        """Return whether torch.compile has made the model, or a part of it."""
        return self.model is not None and any(map(is_compiled, self.model.modules()))
