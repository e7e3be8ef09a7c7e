"""Watches which gradients are read before they are cleared, and tries what a backward pass without the others takes.

For some steps, `grad` of each parameter is a property that tells who asks for it. What is tried is tried on the graph
of the training itself: `torch.autograd.grad` computes the same gradients and changes none.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import ref

import torch
from torch import nn

from workshop.probe.backward_graph import BackwardGraph, nodes_below, roots_of
from workshop.probe.cause import Moment, Results, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above, plain_gradient, tree_leaves
from workshop.probe.observations import WireFrame
from workshop.probe.optimizers import all_optimizers, parameters_of
from workshop.probe.phases import Phase
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials.copies import ensure_room
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import ENOUGH, Watcher, watches_for
from workshop.probe.user_names import names_of_parts

MIN_CLEARED = 2
"""Times, at least, that gradients must be cleared, and never read, to be of no use."""

CLEARS = "zero_grad"
"""The name of the functions of torch that look at a gradient only to clear it."""

_MODULES = "workshop_modules"
"""In the notes of an operation of the graph: the modules that it has made the output of."""

Site: TypeAlias = tuple[WireFrame, ...]
"""The user's frames of a call, of `backward` or of a module."""


@dataclass
class _Site:
    """What has become of the gradients that one line makes."""

    passes: int = 0
    made: Counter[nn.Parameter] = field(default_factory=Counter)
    cleared: Counter[nn.Parameter] = field(default_factory=Counter)
    read: set[nn.Parameter] = field(default_factory=set)
    is_tried: bool = False

    def unused(self, optimized: Callable[[], set[nn.Parameter]]) -> set[nn.Parameter]:
        """Return the parameters whose gradients from here nobody reads: cleared, or not, and of no optimizer."""
        kept = {each for each, times in self.made.items() if times >= ENOUGH and not self.cleared[each]}
        kept -= self.read
        if kept:
            kept -= optimized()
        return kept | {each for each, times in self.cleared.items() if times >= MIN_CLEARED and each not in self.read}


@dataclass
class _Pass:
    """A backward pass that is over, in the present step."""

    roots: list[torch.Tensor]
    nodes: set[Any]
    """The operations that it went through, without those that fill gradients."""
    site: Site


UNUSED_GRADIENTS = TriedCause(
    "unused-gradients",
    "A backward pass computes gradients of {about} that are cleared before anything reads them: detach what comes from "
    "there before it goes into this pass. If no other pass needs it, make it under torch.no_grad().",
    phases=(Phase.BACKWARD,),
    moment=Moment.WATCHING,
    results=Results.SAME,
    words_where_it_leads_on="A backward pass computes gradients of {about} that are cleared before anything reads "
    "them. Gradients that are used come through there, so detach nothing: let its parameters require no gradients in "
    "this pass, with requires_grad_(False) before the call and requires_grad_(True) after it.",
)
GRAPH_TWICE = TriedCause(
    "graph-twice",
    "This backward pass goes once more through what that of line {about} went through: add both losses, and call "
    "backward once, unless the gradients are read in between.",
    phases=(Phase.BACKWARD,),
    moment=Moment.WATCHING,
    results=Results.SAME,
)


@watches_for(UNUSED_GRADIENTS, GRAPH_TWICE)
class GradientUse(Watcher):
    """Watches the gradients of all parameters."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self.models: dict[nn.Module, Site] = {}
        self._is_ours, self._depth = False, 0
        self._sites: dict[Site, _Site] = defaultdict(_Site)
        self._pending: dict[nn.Parameter, list[Site]] = defaultdict(list)
        self._earlier: list[_Pass] = []
        self._twice: Counter[tuple[Site, Site]] = Counter()
        self._read_within: set[nn.Parameter] = set()
        nn.Parameter.grad = property(self._get, self._set, self._delete)

    def end(self) -> None:
        """Watch no more."""
        del nn.Parameter.grad
        super().end()

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note where the script calls a module, and which operations make its output and those of its parts."""
        self.models[module] = user_stack_here()
        self.hear(module, nn.Module, _note_output)

    def on_backward(self, tensors: Any) -> None:
        """Note what a pass is about to go through, and try what would be saved, if that is known by now."""
        self._depth += 1
        if self._depth > 1:
            return
        graph = BackwardGraph(roots_of(tensors))
        self._site = user_stack_here()
        self._leaves = [*graph.leaves.values()]
        self._before = [_state(each) for each in self._leaves]
        self._now = _Pass(graph.roots, set(graph.nodes) - graph.leaves.keys(), self._site)
        self._read_within.clear()
        self._is_ours = True
        try:
            self._try_without_unused()
            self._try_at_once()
        finally:
            self._is_ours = False

    def after_backward(self) -> None:
        """Note which gradients were made."""
        if not self._depth:  # this pass had begun before the watching
            return
        self._depth -= 1
        if self._depth:
            return
        pairs = zip(self._leaves, self._before, strict=True)
        made = [each for each, before in pairs if isinstance(each, nn.Parameter) and _state(each) != before]
        del self._leaves, self._before
        if not made:  # torch.autograd.grad hands them out
            del self._now
            return
        site = self._sites[self._site]
        site.passes += 1
        site.made.update(made)
        site.read |= self._read_within
        for each in made:
            self._pending[each].append(self._site)
        self._earlier.append(self._now)

    def on_step_end(self, steps: int) -> None:
        """A step is over."""
        super().on_step_end(steps)
        self._earlier.clear()

    def _get(self, parameter: nn.Parameter) -> torch.Tensor | None:
        if not self._is_ours:
            if frame_above(1).f_code.co_name == CLEARS:
                self.guarded(self._clear)(parameter)
            else:
                self.guarded(self._read)(parameter)
        return plain_gradient().__get__(parameter)

    def _set(self, parameter: nn.Parameter, value: torch.Tensor | None) -> None:
        if not self._is_ours:
            self.guarded(self._clear if value is None else self._read)(parameter)
        plain_gradient().__set__(parameter, value)

    def _delete(self, parameter: nn.Parameter) -> None:
        self._set(parameter, None)

    def _clear(self, parameter: nn.Parameter) -> None:
        self._earlier.clear()
        for site in self._pending.pop(parameter, ()):
            self._sites[site].cleared[parameter] += 1

    def _read(self, parameter: nn.Parameter) -> None:
        self._earlier.clear()
        self._read_within.add(parameter)
        for site in self._pending.pop(parameter, ()):
            self._sites[site].read.add(parameter)

    def _try_without_unused(self) -> None:
        """Compare the pass that is about to run with one that makes no gradients that nobody reads."""
        site = self._sites[self._site]
        if site.is_tried or site.passes < MIN_CLEARED:
            return
        unused = site.unused(_optimized)
        unused = {each for each in self._leaves if each in unused}
        if not unused:
            return
        site.is_tried = True
        wanted = [each for each in self._leaves if each not in unused]
        roots, leaves, first = self._now.roots, self._leaves, wanted[:1]

        def passes() -> Iterator[Pass]:
            ensure_room(leaves, 2)
            yield lambda: _gradients(roots, leaves, first)
            yield lambda: _gradients(roots, wanted, first) if wanted else None

        names = ", ".join(names_of_parts(self.models, unused, frame_above(1))) or f"{len(unused)} parameters"
        times = site.passes / max(self.steps, 1)
        stack = next((call for module, call in self.models.items() if _trains_only(module, unused)), self._site)
        leads_on = _leads_on(self._now.nodes, unused, set(wanted))
        self.race(UNUSED_GRADIENTS, passes, names, stack, times, leads_on)

    def _try_at_once(self) -> None:
        """Compare two passes through the same operations with a single one from both losses."""
        shared = [each for each in self._earlier if each.nodes & self._now.nodes]
        if not shared:
            return
        before, now = shared[-1], self._now
        self._twice[before.site, now.site] += 1
        if self._twice[before.site, now.site] != MIN_CLEARED:
            return
        leaves = [each for each in self._leaves if isinstance(each, nn.Parameter)]

        def passes() -> Iterator[Pass]:
            def one_by_one() -> None:
                for each in (before, now):
                    _gradients(each.roots, leaves, [])

            yield one_by_one
            yield lambda: _gradients([*before.roots, *now.roots], leaves, [])

        times = self._sites[self._site].passes / max(self.steps, 1)
        apart = (one[2] for one, other in zip(before.site, now.site, strict=False) if one != other)
        line = str(next(apart, now.site[-1][2] if now.site else ""))
        self.race(GRAPH_TWICE, passes, about=line, stack=self._site, times=times)


def _trains_only(module: nn.Module, parameters: set[nn.Parameter]) -> bool:
    trained = [each for each in module.parameters() if each.requires_grad]
    return bool(trained) and parameters.issuperset(trained)


def _note_output(module: nn.Module, _: Any, output: Any) -> None:
    """Note at each operation that makes an output of a module which module that is."""
    for each in tree_leaves(output):
        if isinstance(each, torch.Tensor) and each.grad_fn is not None:
            each.grad_fn.metadata.setdefault(_MODULES, []).append(ref(module))


def _leads_on(nodes: Iterable[Any], unused: set[nn.Parameter], wanted: set[torch.Tensor]) -> bool:
    """Return whether a gradient that is wanted comes through a module that trains unused parameters alone.

    What such a module returns must not be detached then. It may come through what is in no such module, too.
    """
    outputs = {each: [one for one in _made_by(each) if _trains_only(one, unused)] for each in nodes}
    in_modules = {parameter for made in outputs.values() for each in made for parameter in each.parameters()}
    below = nodes_below([each for each, made in outputs.items() if made])
    return not unused <= in_modules or any(getattr(each, "variable", None) in wanted for each in below)


def _made_by(node: Any) -> Iterator[nn.Module]:
    """Yield the modules whose output an operation has made."""
    return (module for each in node.metadata.get(_MODULES, ()) if (module := each()) is not None)


def _state(leaf: torch.Tensor) -> tuple[int, int]:
    """What changes as a gradient is made or added to."""
    gradient = plain_gradient().__get__(leaf)
    return (0, 0) if gradient is None else (id(gradient), gradient._version)


def _gradients(roots: list[torch.Tensor], wanted: Iterable[torch.Tensor], shown: list[torch.Tensor]) -> Any:
    """Compute gradients, and keep the graph; return that of the tensor that is to be shown."""
    wanted = list(wanted)
    ones = [torch.ones_like(each) for each in roots]
    made = torch.autograd.grad(roots, wanted, ones, retain_graph=True, allow_unused=True)
    return next((gradient for each, gradient in zip(wanted, made, strict=True) if shown and each is shown[0]), None)


def _optimized() -> set[nn.Parameter]:
    return {parameter for each in all_optimizers() for parameter in parameters_of(each)}
