"""Watches whether a step calls a model twice for the same result, as once for the loss and once more for a metric.

Two calls do the same if all tensors that go in are equal, and all that come out: so neither dropout nor an optimizer
that has stepped in between lies between them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above, tree_leaves
from workshop.probe.observations import WireFrame
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials import note_race
from workshop.probe.trials.copies import copied_arguments, copied_model, forward_and_backward, of_one_process
from workshop.probe.trials.copy_room import ensure_room
from workshop.probe.trials.trial_race import Pass
from workshop.probe.user_names import name_in
from workshop.probe.watchers.watcher import Watcher

SURE = 3
"""A model must have been called again this often."""

COPIES = 4
"""The memory of a trial, in that of the parameters."""

PLAIN = (bool, int, float, str, type(None))


@dataclass
class _Call:
    """A call of a model, in the present step."""

    module: nn.Module
    inputs: list[Any]
    outputs: list[Any] = field(default_factory=list)


class RepeatedCalls(Watcher):
    """Watches the calls of models, and tries each once without a call that was made before."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._steps = 0
        self._open: list[_Call] = []
        self._calls: list[_Call] = []
        self._again = Counter[nn.Module]()
        self._of_steps = Counter[nn.Module]()  # the calls in steps that are over
        self._places: dict[nn.Module, tuple[WireFrame, ...]] = {}
        self._learned: set[nn.Module] = set()
        self._tried: set[nn.Module] = set()
        self._in_backward = False

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note what goes in, and try a call less if it is known by now that one is too many."""
        self._open.append(_Call(module, _as_they_are((inputs, options))))
        if self._of_steps[module] >= SURE and module not in self._tried and not torch.is_inference_mode_enabled():
            self._tried.add(module)
            self._try(module, inputs, options, name_in(frame_above(0), module))

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Note what comes out, and whether an earlier call has given the same."""
        if not self._open or self._open[-1].module is not module:
            self._open.clear()  # of a call that had begun before this watching, or has ended in an exception
            return
        call = self._open.pop()
        call.outputs = _as_they_are(output)
        if self._in_backward or not _is_of_training(module) or not _has_tensors(call.outputs):
            return  # a backward pass may compute again what it did not keep
        if any(each.module is module and _are_same(each, call) for each in self._calls):
            self._again[module] += 1
            self._places[module] = user_stack_here()
            for each in tree_leaves(output):
                if isinstance(each, torch.Tensor) and each.grad_fn:
                    each.grad_fn.register_prehook(lambda *_: self._learned.add(module))
        self._calls.append(call)

    def on_backward(self, tensors: Any) -> None:
        """A backward pass begins."""
        self._in_backward = True

    def after_backward(self) -> None:
        """It is over."""
        self._in_backward = False

    def on_step_end(self, steps: int) -> None:
        """Begin with the next step."""
        self._steps += 1
        self._of_steps = self._again.copy()
        self._calls.clear()

    def _try(self, module: nn.Module, inputs: Any, options: Any, name: str) -> None:
        """Compare two calls with one; with their backward passes, if the later call has been in one."""
        learned = module in self._learned

        def passes() -> Iterator[Pass]:
            ensure_room(module.parameters(), COPIES)
            copied, (given, named) = copied_model(of_one_process(module)), copied_arguments(inputs, options)

            def call() -> object:
                with torch.set_grad_enabled(learned):
                    return forward_and_backward(copied, given, named) if learned else copied(*given, **named)

            def call_twice() -> object:
                call()
                return call()

            yield call_twice
            yield call

        times = self._of_steps[module] / self._steps
        note_race("repeated-call", passes, self.events, about=name, stack=self._places[module], times=times)


def _as_they_are(values: Any) -> list[Any]:
    """Return the leaves of some values, tensors without their graph, which would else be kept."""
    leaves = tree_leaves(values)
    return [(each.detach(), each._version) if isinstance(each, torch.Tensor) else (each, 0) for each in leaves]


def _is_of_training(module: nn.Module) -> bool:
    """Whether a call now may belong to a step: that of a model, not of a loss function, and not of a validation."""
    return (module.training or torch.is_grad_enabled()) and any(True for _ in module.parameters())


def _has_tensors(values: list[Any]) -> bool:
    return any(isinstance(each, torch.Tensor) for each, _ in values)


def _are_same(one: _Call, other: _Call) -> bool:
    pairs = [*zip(one.inputs, other.inputs, strict=False), *zip(one.outputs, other.outputs, strict=False)]
    as_many = len(one.inputs) == len(other.inputs) and len(one.outputs) == len(other.outputs)
    try:
        return as_many and all(_is_same(*each) for each in pairs)
    except RuntimeError:  # values of sparse tensors, or under vmap, cannot be looked at
        return False


def _is_same(one: tuple[Any, int], other: tuple[Any, int]) -> bool:
    """Whether two values are the same, up to rounding; of a tensor that was changed since, it is not known."""
    (kept, version), (now, _) = one, other
    if not isinstance(kept, torch.Tensor) or not isinstance(now, torch.Tensor):
        return kept is now or (type(kept) in PLAIN and type(kept) is type(now) and bool(kept == now))
    if kept.shape != now.shape or kept.dtype != now.dtype or kept.device != now.device or kept._version != version:
        return False
    return torch.equal(kept, now) or (now.is_floating_point() and torch.allclose(kept, now, rtol=1e-4))
