"""Watches how many targets a loss ignores, and tries the layer before it for the others alone.

A language model that learns masked words, or only answers, has a loss in which most positions do not count; its last
layer, over a large vocabulary, is computed for all of them nevertheless.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from workshop.probe.cause import Moment, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above
from workshop.probe.observations import WireFrame
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials.copies import ensure_room
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import ENOUGH, MIN_WASTED, Watcher, watches_for
from workshop.probe.user_names import name_in

CROSS_ENTROPY = signature(functional.cross_entropy)


IGNORED_TARGETS = TriedCause(
    "ignored-targets",
    "{about} are ignored by the loss: pick the positions that count before this layer, for its inputs and the "
    "targets alike.",
    moment=Moment.WATCHING,
)


@watches_for(IGNORED_TARGETS)
class IgnoredTargets(Watcher):
    """Watches the last linear layers, and the cross entropies of what they return."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._last: tuple[nn.Linear, int] | None = None  # with the number of values that it has returned
        self._places: dict[nn.Linear, tuple[tuple[WireFrame, ...], str]] = {}
        self._losses = Counter[nn.Linear]()
        self._of_steps = Counter[nn.Linear]()  # the losses in steps that are over

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Watch the linear layers of a module that the script calls."""
        self.hear(module, nn.Linear, self._note)

    def on_loss(self, function: Callable[..., Any], args: Any, options: dict[str, Any], loss: torch.Tensor) -> None:
        """Count a loss that ignores most targets, and try its layer once there were enough."""
        if self._last is None or function.__name__ != "cross_entropy":
            return
        try:
            given = CROSS_ENTROPY.bind(*args, **options)
        except TypeError:  # the script has a function of its own in its place
            return
        given.apply_defaults()
        logits, targets, ignored = (given.arguments[each] for each in ("input", "target", "ignore_index"))
        layer, size = self._last
        if layer in self.tried or not _are_scores(logits, targets, layer.out_features) or logits.numel() > size:
            return
        counts = targets.flatten() != ignored
        try:
            share = 1.0 - float(counts.float().mean())
        except RuntimeError:  # values under vmap cannot be looked at
            return
        if share < MIN_WASTED:
            return
        self._losses[layer] += 1
        if self._of_steps[layer] >= ENOUGH:
            self._try(layer, targets.detach().flatten(), counts, ignored)

    def _try(self, layer: nn.Linear, asked: torch.Tensor, counts: torch.Tensor, ignored: int) -> None:
        """Compare the layer and the loss for all targets with those for the ones that count."""
        self.tried.add(layer)
        kept, (stack, name) = counts.nonzero().flatten(), self._places[layer]

        def passes() -> Iterator[Pass]:
            ensure_room(layer.parameters(), 6)
            values = torch.randn(len(asked), layer.in_features, device=asked.device, dtype=layer.weight.dtype)
            weight = layer.weight.detach().clone().requires_grad_()
            bias = None if layer.bias is None else layer.bias.detach().clone().requires_grad_()

            def run(picked: torch.Tensor | slice) -> torch.Tensor:
                inner = values[picked].requires_grad_()
                found = functional.linear(inner, weight, bias)
                wanted = [each for each in (weight, bias, inner) if each is not None]
                loss = _untold_cross_entropy(found, asked[picked], ignored)
                return torch.autograd.grad(loss, wanted)[0]

            yield lambda: run(slice(None))
            yield lambda: run(kept)

        times = self._of_steps[layer] / self.steps
        about = f"{1.0 - len(kept) / len(asked):.0%} of the targets of {name}"
        self.race(IGNORED_TARGETS, passes, about=about, stack=stack, times=times)

    def on_step_end(self, steps: int) -> None:
        """Begin with the next step."""
        super().on_step_end(steps)
        self._of_steps = self._losses.copy()

    def _note(self, layer: nn.Linear, _: tuple[Any, ...], output: torch.Tensor) -> None:
        if torch.is_grad_enabled() and isinstance(output, torch.Tensor):
            self._last = layer, output.numel()
            if layer not in self._places:
                self._places[layer] = user_stack_here(), name_in(frame_above(0), layer)


def _are_scores(logits: object, targets: object, classes: int) -> bool:
    """Whether these are a score for each class, and the numbers of classes that are asked for."""
    if not isinstance(logits, torch.Tensor) or not isinstance(targets, torch.Tensor):
        return False
    is_number = not targets.is_floating_point() and targets.numel() * classes == logits.numel()
    return is_number and logits.shape[min(logits.ndim - 1, 1)] == classes


def _untold_cross_entropy(logits: torch.Tensor, targets: torch.Tensor, ignored: int) -> torch.Tensor:
    """The same as torch's, of which the probe is told."""
    return functional.nll_loss(functional.log_softmax(logits, 1), targets, ignore_index=ignored)
