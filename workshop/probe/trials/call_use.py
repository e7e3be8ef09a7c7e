"""Watches what a step calls a model for: a graph that no backward pass goes through, or the same result once more.

Whether a pass goes through an output is told by a hook on the operation that has made it, which keeps nothing alive.
Two calls do the same, as one for the loss and one for a metric, if what goes in is equal, and what comes out: so
neither dropout nor an optimizer that has stepped lies between them. Of the values, little is kept: a sum and a sample.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn

from workshop.probe.cause import Moment, Results, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above, tree_leaves
from workshop.probe.observations import WireFrame
from workshop.probe.phases import Phase
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials.copies import copied_call, forward_and_backward
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import ENOUGH, Watcher, watches_for
from workshop.probe.user_names import name_in

MIN_CALLS = 3
"""Calls from a line, at least, that were in no backward pass, and never one that was, if it needs no graph."""

MAX_CALLS = 8
"""Calls before it, at most, that a call is compared with."""

SAMPLE = 256
"""The number of values that are kept of a tensor."""

PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, eq=False)
class _KeptTensor:
    """What is kept of a tensor; as inputs, two are equal if these are."""

    form: tuple[Any, ...]
    origin: int | None
    """0, or the place of one that gets a gradient by itself.

    None for one that an operation has made, with a graph: a backward pass takes no other one for it.
    """
    total: torch.Tensor
    sample: torch.Tensor

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "_KeptTensor":
        """Return what is kept; what cannot be looked at raises an exception of torch."""
        origin = 0 if not tensor.requires_grad else tensor.data_ptr() if tensor.is_leaf else None
        flat = tensor.detach().flatten()
        sample = flat[:: max(len(flat) // SAMPLE, 1)].clone()
        return cls((tensor.shape, tensor.dtype, tensor.device), origin, flat.sum(dtype=torch.float64), sample)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _KeptTensor) or self.origin is None:
            return False
        is_same = (self.form, self.origin) == (other.form, other.origin)
        return is_same and torch.equal(self.total, other.total) and torch.equal(self.sample, other.sample)

    __hash__ = None  # type: ignore[assignment]


Kept: TypeAlias = list[Any]
"""What is kept of some values: of tensors, a `_KeptTensor`, of others, their class and themselves."""


@dataclass
class _Call:
    """A call of a model."""

    module: nn.Module
    stack: tuple[WireFrame, ...]
    """The user's frames."""
    step: int
    inputs: Kept | None
    """None if they cannot be looked at, or must not be taken for others."""
    makes_graph: bool
    outputs: Kept | None = None
    is_reached: bool = False
    """Whether a backward pass went through what it has made."""
    backward: int = 0
    """The number of the first such pass that keeps nothing of it for a pass to come; 0 if none did."""

    @property
    def site(self) -> tuple[nn.Module, tuple[WireFrame, ...]]:
        """What is called, and where."""
        return self.module, self.stack


@dataclass
class _Repetition:
    """Two calls of a step that do the same."""

    earlier: _Call
    later: _Call

    @property
    def in_backward(self) -> bool:
        """Whether a call less makes the backward pass shorter, too."""
        return bool(self.earlier.backward and self.later.backward)

    @property
    def is_needed(self) -> bool:
        """Whether two backward passes go through what the calls have made: a second one through the same would fail."""
        return self.in_backward and self.earlier.backward != self.later.backward


UNUSED_GRAPH = TriedCause(
    "unused-graph",
    "This call of {about} builds a graph that no backward pass went through while it was watched: if none ever does, "
    "call it under torch.no_grad().",
    phases=(Phase.FORWARD,),
    moment=Moment.WATCHING,
    results=Results.SAME,
    group="calls for a metric",
)
REPEATED_CALL = TriedCause(
    "repeated-call",
    "This call of {about} gets the same inputs as an earlier one of the step, and returns the same: call it "
    "once, and use what it has returned again.{setting}",
    moment=Moment.WATCHING,
    results=Results.SAME_OPERATIONS,
    group="calls for a metric",
)


@watches_for(UNUSED_GRAPH, REPEATED_CALL)
class CallUse(Watcher):
    """Watches the calls of models, and tries each once without a graph, or without a call that was made before.

    In each of some steps it must have been called again as often: equal inputs of a game are chance.
    """

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._open: list[_Call] = []
        self._with_graph: list[_Call] = []
        """The calls of the present step that have made a graph, and of the one before until it is over."""
        self._reached = set[Any]()
        self._in_vain = Counter[Any]()
        """The sites of the calls whose graphs were gone through, and were not."""
        self._calls: defaultdict[nn.Module, deque[_Call]] = defaultdict(lambda: deque(maxlen=MAX_CALLS))
        self._found: list[_Repetition] = []
        self._counts: defaultdict[nn.Module, list[int]] = defaultdict(list)
        """How often each model has been called again, in the steps that are over since it was first."""
        self._in_backward: dict[nn.Module, bool] = {}
        self._passes = self._depth = 0

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note what goes in, and try a call without a graph, or a call less, if it is known that none is needed."""
        given = _kept((inputs, options)) if self._is_of_training(module) else None
        call = _Call(module, user_stack_here(), self.steps, given, torch.is_grad_enabled())
        self._open.append(call)
        counts = self._counts.get(module, [])
        in_vain = self._in_vain[call.site] if call.makes_graph and call.site not in self._reached else 0
        if in_vain >= MIN_CALLS and call.site not in self.tried:
            self.tried.add(call.site)
            self._try_without_graph(call, inputs, options, in_vain / max(self.steps - 1, 1))
        if module in self.tried or len(counts) < ENOUGH or len({*counts}) > 1:
            return
        if call.inputs is not None and any(each.inputs == call.inputs for each in self._calls[module]):
            self.tried.add(module)
            self._try_once(call, inputs, options, float(counts[0]))

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Note what comes out, whether a pass goes through it, and whether an earlier call has given the same."""
        if not self._open or self._open[-1].module is not module:
            self._open.clear()  # of a call that had begun before this watching
            return
        call = self._open.pop()
        nodes = [each.grad_fn for each in tree_leaves(output) if isinstance(each, torch.Tensor) and each.grad_fn]
        for node in nodes:
            node.register_prehook(self.guarded(partial(self._go_through, call)))
        if nodes and call.makes_graph:
            self._with_graph.append(call)
        if call.inputs is None:
            return
        call.outputs = _kept(output)
        same = (each for each in self._calls[module] if each.inputs == call.inputs)
        earlier = next((each for each in same if _are_close(each.outputs, call.outputs)), None)
        self._found += [_Repetition(earlier, call)] if earlier else []
        self._calls[module].append(call)

    def on_backward(self, tensors: Any) -> None:
        """A backward pass begins, maybe inside of another."""
        self._passes += not self._depth
        self._depth += 1

    def after_backward(self) -> None:
        """It is over."""
        self._depth = max(self._depth - 1, 0)

    def on_step_end(self, steps: int) -> None:
        """Count what was done again in this step, and what the step before has made and nobody has gone through."""
        again = [each for each in self._found if not each.is_needed]
        counted = Counter(each.later.module for each in again)
        for module in {*self._counts, *counted}:
            self._counts[module].append(counted[module])
        self._in_backward.update((each.later.module, each.in_backward) for each in again)
        self._found.clear()
        self._calls.clear()
        self._reached.update(each.site for each in self._with_graph if each.is_reached)
        old = [each for each in self._with_graph if each.step < self.steps]
        self._in_vain.update(each.site for each in old if not each.is_reached)
        self._with_graph = [each for each in self._with_graph if each.step == self.steps]
        super().on_step_end(steps)

    def _is_of_training(self, module: nn.Module) -> bool:
        """Whether a call is one of a step: not of a loss function, of a validation, or of a backward pass's own."""
        is_model = next(module.parameters(), None) is not None
        return is_model and not self._depth and (module.training or torch.is_grad_enabled())

    def _go_through(self, call: _Call, *_: Any) -> None:
        """Note the pass; one that makes a graph itself keeps what it goes through, for a pass to come."""
        call.is_reached = True
        if not torch.is_grad_enabled():
            call.backward = call.backward or self._passes

    def _try_without_graph(self, call: _Call, inputs: Any, options: Any, times: float) -> None:
        """Compare a call with the same call without a graph."""

        def passes() -> Iterator[Pass]:
            copied, given, named = copied_call(call.module, inputs, options, times=2)

            def run(with_graph: bool) -> torch.Tensor:
                with torch.set_grad_enabled(with_graph):
                    outputs = [each for each in tree_leaves(copied(*given, **named)) if isinstance(each, torch.Tensor)]
                return torch.cat([each.detach().flatten().float() for each in outputs])

            yield lambda: run(True)
            yield lambda: run(False)

        about = name_in(frame_above(0), call.module)
        self.race(UNUSED_GRAPH, passes, about=about, stack=call.stack, times=times)

    def _try_once(self, call: _Call, inputs: Any, options: Any, times: float) -> None:
        """Compare two calls with one; with their backward pass, if it goes through both."""
        module, learns = call.module, self._in_backward[call.module]

        def passes() -> Generator[Pass, None, str]:
            copied, given, named = copied_call(module, inputs, options)

            def run() -> object:
                with torch.set_grad_enabled(learns):
                    return forward_and_backward(copied, given, named) if learns else copied(*given, **named)

            def run_twice() -> object:
                run()
                return run()

            yield run_twice
            yield run
            return " Its running statistics then count each batch once." if _keeps_statistics(module) else ""

        about = name_in(frame_above(0), module)
        self.race(REPEATED_CALL, passes, about=about, stack=call.stack, times=times)


def _keeps_statistics(module: nn.Module) -> bool:
    return any(getattr(each, "track_running_stats", False) and each.training for each in module.modules())


def _kept(values: Any) -> Kept | None:
    """Return what is kept of some values; None if nothing can be told of them."""
    try:
        leaves = tree_leaves(values)
        if not all(isinstance(each, (torch.Tensor, *PLAIN)) for each in leaves):
            return None
        return [_KeptTensor.of(each) if isinstance(each, torch.Tensor) else (type(each), each) for each in leaves]
    except Exception:  # sparse tensors, those under vmap, objects of the user: they fail in many ways
        return None


def _are_close(one: Kept | None, other: Kept | None) -> bool:
    """Whether outputs are the same, up to rounding; not if they are anything but tensors."""
    if not one or not other or len(one) != len(other):
        return False
    return all(map(_is_close, one, other))


def _is_close(one: Any, other: Any) -> bool:
    is_same = isinstance(one, _KeptTensor) and isinstance(other, _KeptTensor) and one.form == other.form
    return is_same and torch.allclose(one.sample, other.sample, rtol=1e-5)
