"""Tries what a change to the way of computing would bring: on a copy of the model, with a batch of the training."""

import copy
import os
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import monotonic  # the script may replace that of the module
from typing import Any, TypeAlias

import torch
from torch import nn

from workshop.probe.event_file import EventFile
from workshop.probe.internals import forward_hooks, tree_leaves, tree_map
from workshop.probe.observations import Trial
from workshop.probe.settings import SMALL_OPERATORS

ROUNDS = 7
MAX_DURATION_S = 4.0
"""A trial ends after this many rounds or seconds; the first round does not count."""

OPERATORS_A_ROW = 5
"""The number of operators for each row of a trial that is about how long an operator takes, however small it is."""

MANY_CALLS = 16
"""A module that is called less often in a pass is not called in a loop over small things."""

Pass: TypeAlias = Callable[[], object]


def attempt(name: str, model: nn.Module, inputs: Any, options: Any, events: EventFile) -> None:
    """Try one of `TRIALS`, and note the result."""
    try:
        with warnings.catch_warnings(), _random_states_kept():
            warnings.simplefilter("ignore")
            inputs, options = tree_map(
                lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else copy.deepcopy(leaf),
                (inputs, options),
            )
            passes = TRIALS[name](_of_one_process(model), inputs, options)
            as_it_is, changed = _race(next(passes), next(passes))
            next(passes, None)  # what was changed is put back
        events.write(Trial, name=name, as_it_is_s=as_it_is, changed_s=changed)
    except Exception as error:  # models that cannot be copied fail in many ways
        events.write(Trial, name=name, as_it_is_s=0.0, changed_s=0.0, error=f"{type(error).__name__}: {error}"[:200])


def _more_threads(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    model, few = _copy(model), torch.get_num_threads()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def with_threads(number: int) -> None:
        torch.set_num_threads(number)
        _forward_and_backward(model, inputs, options)

    try:
        yield lambda: with_threads(few)
        yield lambda: with_threads(cores)
    finally:
        torch.set_num_threads(few)


def _single_precision(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    double, single = _copy(model), _copy(model).float()
    yield lambda: _forward_and_backward(double, inputs, options)
    few_bits, few_bits_options = tree_map(_as_single, (inputs, options))
    yield lambda: _forward_and_backward(single, few_bits, few_bits_options)


def _without_anomaly_mode(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    model = _copy(model)

    def in_mode(mode: bool) -> None:
        with torch.autograd.set_detect_anomaly(mode):
            _forward_and_backward(model, inputs, options)

    yield lambda: in_mode(True)
    yield lambda: in_mode(False)


def _without_loop(*_: Any) -> Iterator[Pass]:
    """A small layer, in a loop over rows and for all of them at once."""
    layer = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    rows = torch.randn(SMALL_OPERATORS // OPERATORS_A_ROW, 8, 16, requires_grad=True)
    yield lambda: torch.stack([layer(rows[number]) * 0.5 for number in range(len(rows))]).sum().backward()
    yield lambda: (layer(rows) * 0.5).sum().backward()


def _once_for_all(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """The modules that a pass calls many times: as often as it does, and once with all of the rows."""
    repeated = _repeated_calls(_copy(model), inputs, options)
    if not repeated:
        raise RuntimeError(f"it calls no module {MANY_CALLS} times")
    once = [(module, _rows(module, given, times), 1) for module, given, times in repeated]
    yield lambda: _calls_and_backward(repeated)
    yield lambda: _calls_and_backward(once)


def _calls_and_backward(calls: list[tuple[nn.Module, tuple[Any, ...], int]]) -> None:
    """Call each module its number of times, then run backward from the sum of all outputs."""
    outputs = [module(*given) for module, given, times in calls for _ in range(times)]
    _sum_of_trained(outputs).backward()


def _repeated_calls(model: nn.Module, inputs: Any, options: Any) -> list[tuple[nn.Module, tuple[Any, ...], int]]:
    """Return the outermost modules that are called many times in a pass, what they are given first, and how often."""
    times, first, within = Counter[nn.Module](), dict[nn.Module, tuple[Any, tuple[nn.Module, ...]]](), list[nn.Module]()

    def enter(module: nn.Module, given: tuple[Any, ...]) -> None:
        times[module] += 1
        first.setdefault(module, (given, tuple(within)))
        within.append(module)

    def leave(*_: Any) -> None:
        within.pop()

    for each in model.modules():  # it is a copy
        each.register_forward_pre_hook(enter)
        each.register_forward_hook(leave, always_call=True)
    model(*inputs, **options)
    for each in model.modules():
        _drop_hooks(each)
    return [
        (module, _rows(module, first[module][0], 1), times[module])
        for module in first
        if times[module] >= MANY_CALLS and all(times[outer] < MANY_CALLS for outer in first[module][1])
    ]


def _rows(module: nn.Module, given: tuple[Any, ...], times: int) -> tuple[Any, ...]:
    """Repeat a module's inputs `times` times in a single batch; a recurrent module gets one series and no state."""
    recurrent = isinstance(module, (nn.RNNBase, nn.RNNCellBase))
    along = 1 if isinstance(module, nn.RNNBase) and module.batch_first else 0

    def repeat(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        rows = torch.cat([leaf.detach()] * times, along) if leaf.ndim else leaf.detach()
        return rows.requires_grad_(leaf.is_floating_point())

    return tree_map(repeat, given[:1] if recurrent else given)


TRIALS: dict[str, Callable[[nn.Module, Any, Any], Iterator[Pass]]] = {
    "one-thread": _more_threads,
    "float64": _single_precision,
    "anomaly-mode": _without_anomaly_mode,
    "tiny-operators": _without_loop,
    "once-for-all": _once_for_all,
}
"""The trials, by the cause that they test. Each makes two passes: unchanged, and changed."""


@contextmanager
def _random_states_kept() -> Iterator[None]:
    """Let what is drawn inside change nothing outside."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    state, numpy = random.getstate(), sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)


def _of_one_process(model: nn.Module) -> nn.Module:
    """Return the model without what averages its gradients.

    Raises:
        RuntimeError: there are other ranks, which would not take part in the trial at the same time.
    """
    if (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1
    ):
        raise RuntimeError("several processes may take part in a pass of this model")
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


def _copy(model: nn.Module) -> nn.Module:
    """Copy a model without the hooks of its modules, which may note what passes."""
    copied = copy.deepcopy(model)
    for each in copied.modules():
        _drop_hooks(each)
    return copied


def _drop_hooks(module: nn.Module) -> None:
    for each in forward_hooks(module):
        each.clear()


def _race(as_it_is: Pass, changed: Pass) -> tuple[float, float]:
    """Return the median seconds of two passes that take turns."""
    seconds: tuple[list[float], list[float]] = [], []
    give_up = monotonic() + MAX_DURATION_S
    for round_ in range(ROUNDS):
        for run, of_run in zip((as_it_is, changed), seconds, strict=True):
            begin = monotonic()
            run()
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            if round_:
                of_run.append(monotonic() - begin)
        if round_ and monotonic() > give_up:
            break
    return median(seconds[0]), median(seconds[1])


def _forward_and_backward(model: nn.Module, inputs: Any, options: Any) -> None:
    """Forward, and backward from the sum of all that comes out."""
    _sum_of_trained(model(*inputs, **options)).backward()
    model.zero_grad()


def _sum_of_trained(output: Any) -> torch.Tensor:
    leaves = tree_leaves(output)
    leaves += tree_leaves(vars(output)) if hasattr(output, "__dict__") and not isinstance(output, torch.Tensor) else []
    return sum(each.sum() for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad)


def _as_single(leaf: Any) -> Any:
    return leaf.float() if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 else leaf
