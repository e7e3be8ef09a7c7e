"""What the operators of a step compute: how long, how many operations and bytes; and how fast this device computes.

A few steps run under torch.profiler. In the next one, a dispatch mode counts the work of each operator, by the formulas
of torch's flop counter. Then matrix products and a copy are timed. Nothing changes in the script but the time.
"""

import json
import os
import sys
import threading
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import monotonic, time_ns  # the script may replace those of the module
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from workshop.probe.event_file import EventFile
from workshop.probe.internals import can_leave, profiled_events, python_calls_of, tree_leaves
from workshop.probe.observations import LargestMade, OperatorWork, WireFrame
from workshop.probe.phase_clock import PhaseClock
from workshop.probe.phase_marks import PhaseMarks
from workshop.probe.phases import CALLS, STEP_END, Phase
from workshop.probe.process_end import at_process_end
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.torch_profiler import ProfiledScopes
from workshop.probe.trials.copies import ensure_free
from workshop.probe.trials.trial_race import wait_for_gpu, why_not
from workshop.probe.trials.watcher import Watcher
from workshop.probe.user_code import is_user_code

RATED_S = 0.25
"""Seconds for which a matrix product, or a copy, is repeated: its shortest time counts."""

MAX_EVENTS = 400_000
"""Events, at most, of a trace that is kept: as a file they take 0.1 GB, and some seconds to write and to read."""

LOOKS_UP = ("embedding", "index", "index_select", "gather")
"""Operators that read of their largest input only what they return."""


class OperatorMeter(Watcher):
    """Measures the operators of some steps from where it is made, and notes an `OperatorWork` in the end.

    Args:
        events: where.
        clock: tells the phase that operators are in.
        steps: how many steps are profiled.
        stacks: whether to record stacks, too, and to keep the trace, from which the time of each line is known.
    """

    def __init__(self, events: EventFile, clock: PhaseClock, steps: int, stacks: bool = False) -> None:
        super().__init__(events)
        marks = PhaseMarks(clock, self.guarded) if stacks and sys.getprofile() is None else None
        self._profiled, self._recording, self._counter = steps, ProfiledSteps(marks), WorkCounter(clock)
        self._found: dict[str, Any] = {}
        self._course = self._measured()
        self._go_on()

    def on_step_end(self, steps: int) -> None:
        """Go on with what comes after this step."""
        super().on_step_end(steps)
        self._go_on()

    def end(self) -> None:
        """Take down what still records or counts."""
        super().end()
        self._course.close()

    def _go_on(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                next(self._course, None)
        except Exception as error:  # what was found before it is kept
            self.events.write(OperatorWork, **self._found, error=why_not(error))

    def _measured(self) -> Generator[None]:
        """Measure, from step to step."""
        with self._recording.profiled():
            for _ in range(self._profiled):
                yield
                self._recording.end_step()
            self._recording.end_steps()
        self._found |= self._recording.operators()
        self._found["trace"] = self.guarded(self._recording.keep)(self.events.folder) or ""
        with self._counter.counting():
            yield
        for stack, (size, form) in self._counter.largest.items():
            self.events.write(LargestMade, stack=stack, form=form, size=size)
        operations, device = self._counter.operations, torch.device("cuda" if torch.cuda.is_initialized() else "cpu")
        dtype = max(operations, key=operations.__getitem__, default=torch.get_default_dtype())
        counted = {"operations": sum(operations.values()), "bytes": self._counter.bytes, "dtype": _name(dtype)}
        rates = {"products": dict(_rates(device, dtype)), "copied": _copied(device)}
        self.events.write(OperatorWork, **self._found, **counted, **rates)


# How long operators compute


class Span(NamedTuple):
    """An operator that no other one has called, or a stretch of a device's work."""

    began_ns: int
    ended_ns: int
    calls: int = 1
    """The number of operators in it: it, and those that it calls."""

    @property
    def seconds(self) -> float:
        """Its duration."""
        return (self.ended_ns - self.began_ns) / 1e9


class ProfiledSteps:
    """Small operators, and steps after them, under torch.profiler.

    Args:
        marks: marks the phases in a trace with stacks; None if none is wanted. Another profiler of Python, such as a
            script's own, would be taken away by one that records stacks.

    Attributes:
        ends_ns: when the first step began, and when each ended, by the system's clock.
    """

    def __init__(self, marks: PhaseMarks | None = None) -> None:
        self.ends_ns: list[int] = []
        self._marks = marks
        self._small_ns: list[int] = []
        self._profiler: Any = None
        self._is_on, self._thread = False, 0
        self._scopes = ProfiledScopes()

    @contextmanager
    def profiled(self) -> Iterator[None]:
        """Record from now on.

        Raises:
            RuntimeError: the script profiles itself.
        """
        if torch.autograd._profiler_enabled():
            raise RuntimeError("the script profiles itself")
        wait_for_gpu()
        self._profiler = torch.profiler.profile(with_stack=self._marks is not None)
        self._thread = threading.get_ident()
        unwatch = self._scopes.watch()
        os.register_at_fork(before=self.stop)  # the other process would record for ever
        at_process_end(self.stop)  # torch may crash as it takes down a profiler that records
        self._profiler.start()
        self._is_on = True
        self._record_small()
        self._note_end()
        try:
            with self._marks.marked() if self._marks else nullcontext():
                yield
        finally:
            self.stop()
            unwatch()

    def stop(self) -> None:
        """Stop recording, in the thread that has begun."""
        if self._is_on and self._thread == threading.get_ident():
            self._is_on = False
            if self._marks:
                self._marks.close()
            self._profiler.stop()
            self._scopes.on_profiler_end()

    def end_step(self) -> None:
        """Note the end of a step, if all of it was recorded: what it has asked of a GPU may not be over yet."""
        if self._is_on:
            self._note_end()

    def end_steps(self) -> None:
        """Let the last step end when the GPU has done all that was asked of it."""
        if self._is_on and len(self.ends_ns) > 1:
            wait_for_gpu()
            self.ends_ns[-1] = time_ns()

    def _note_end(self) -> None:
        with record_function(STEP_END) if self._marks else nullcontext():
            self.ends_ns.append(time_ns())

    def keep(self, folder: str) -> str:
        """Write the trace to a file in a folder, and return its name; empty if it has no stacks, or is too large."""
        profiler, self._profiler = self._profiler, None  # what it holds is large
        if not self._marks or len(profiler.profiler.kineto_results.events()) > MAX_EVENTS:
            return ""
        path = Path(folder, f"{os.getpid()}.pt.trace.json")
        try:
            profiler.export_chrome_trace(str(path))
            if not path.is_file():  # torch does not raise it
                raise OSError(f"{path.name} could not be written")
            if torch.__version__ < (2, 14):
                _keep_calls(profiler, f"{path}{CALLS}")
        except BaseException:  # half a trace is none, and takes the room of what others note
            with suppress(OSError):
                path.unlink()
            raise
        return path.name

    def _record_small(self) -> None:
        """Record passes of a layer with next to nothing to compute, each with cold caches, as a script's calls have."""
        ones = partial(torch.ones, device="cpu", dtype=torch.float32)
        weights, rows, others = ones(16, 16, requires_grad=True), ones(8, 16), ones(2, 2**21)
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            for _ in range(20):
                others[0].copy_(others[1])
                self._small_ns.append(time_ns())
                torch.autograd.grad((nn.functional.linear(rows, weights).relu() * 0.5).sum(), weights)
                self._small_ns.append(time_ns())

    def operators(self) -> dict[str, float]:
        """Return for how many seconds of a step operators compute, how many are called, and what the step takes here.

        On a CPU, it is the time of each operator without what as many small ones take, which compute nothing. On a
        GPU, it is the time in which the device is at work.

        Raises:
            RuntimeError: there is no step that was recorded to its end.
        """
        steps = len(self.ends_ns) - 1
        if not steps:
            raise RuntimeError("the process was forked meanwhile")
        on_cpu, on_device = profiled_events(self._profiler)
        step_s = median(ended - began for began, ended in pairwise(self.ends_ns)) / 1e9
        if on_device:
            spans = sorted(span for span in on_device if self.ends_ns[0] <= span[0] < self.ends_ns[-1])
            computing_s, calls = sum(each.seconds for each in united(spans)) / steps, len(spans) / steps
            step_s = (self.ends_ns[-1] - self.ends_ns[0]) / steps / 1e9  # the GPU may be behind at the end of each
            return {"seconds": computing_s, "calls": round(calls), "step_s": step_s}
        (thread, _), *_ = Counter(of for _, began, _, of in on_cpu if began < self.ends_ns[0]).most_common(1)
        called = [(began, ended) for name, began, ended, of in on_cpu if of == thread and _is_operator(name)]
        outer = outermost(sorted(called, key=lambda span: (span[0], -span[1])))
        small = [_between(outer, *ends) for ends in list(pairwise(self._small_ns))[::2]]
        each_s = median(sum(one.seconds for one in of_pass) / sum(one.calls for one in of_pass) for of_pass in small)
        each_step = [_between(outer, *ends) for ends in pairwise(self.ends_ns)]
        computing_s = median(sum(max(0.0, one.seconds - each_s * one.calls) for one in spans) for spans in each_step)
        return {"seconds": computing_s, "calls": round(median(map(len, each_step))), "step_s": step_s}


def _keep_calls(profiler: Any, path: str) -> None:
    """Write the places of the user's code that calls came from, and the first mark, each with its time."""
    calls = python_calls_of(profiler.profiler.kineto_results, STEP_END)
    users = [call for call in calls if call[1] == STEP_END or is_user_code(call[1])]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(sorted(users), file)


def outermost(spans: Sequence[tuple[int, int]]) -> list[Span]:
    """Return those that lie in no other one, of spans by their beginning, the longest first, each with its number."""
    found = list[Span]()
    for began, ended in spans:
        if found and ended <= found[-1].ended_ns:
            found[-1] = found[-1]._replace(calls=found[-1].calls + 1)
        else:
            found.append(Span(began, ended))
    return found


def united(spans: Sequence[tuple[int, int]]) -> list[Span]:
    """Return the union of spans, which are in the order of their beginning."""
    found = list[Span]()
    for began, ended in spans:
        if found and began <= found[-1].ended_ns:
            found[-1] = found[-1]._replace(ended_ns=max(ended, found[-1].ended_ns))
        else:
            found.append(Span(began, ended))
    return found


def _between(spans: Sequence[Span], began_ns: int, ended_ns: int) -> Sequence[Span]:
    """Those that begin between two times."""
    first, last = (bisect_right(spans, when, key=lambda span: span.began_ns) for when in (began_ns, ended_ns))
    return spans[first:last]


def _is_operator(name: str) -> bool:
    return "::" in name and not name.startswith(("autograd::", "profiler::"))


# How much they compute


class WorkCounter(TorchDispatchMode):
    """Counts the floating-point operations of operators, and the bytes that they read and write, but of no validation.

    Attributes:
        operations: those of products and convolutions, by the type of the numbers.
        bytes: those of all operators but views.
        largest: the bytes and the form of the largest tensor that was made in a forward pass, by the user's frames.
        fault: why it has counted no further.
    """

    def __init__(self, clock: PhaseClock) -> None:
        super().__init__()
        self._clock, self._counts, self._in_inference = clock, False, False
        self.operations = Counter[torch.dtype]()
        self.bytes = 0
        self.largest = dict[tuple[WireFrame, ...], tuple[int, str]]()
        self.fault: Exception | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count from now on, in this thread and in the backward passes that it begins.

        Raises:
            Exception: something could not be counted.
        """
        self._in_inference = torch.is_inference_mode_enabled()
        self.__enter__()
        self._counts = True
        os.register_at_fork(after_in_child=self._leave)
        try:
            yield
        finally:
            self._leave()
        if self.fault:
            raise self.fault

    def _leave(self) -> None:
        """Leave the mode, unless the script has entered another one inside, or inference, which that would break."""
        self._counts = False
        if can_leave(self, self._in_inference):
            self.__exit__(None, None, None)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, and count its work."""
        result = function(*args, **(kwargs or {}))
        if self._counts and self.fault is None and self._clock.counted_phase is not Phase.VALIDATION:
            try:
                self._count(function, args, kwargs or {}, result)
            except Exception as error:
                self.fault = error
        return result

    def _count(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not isinstance(function, torch._ops.OpOverload) or moves_nothing(function):
            return
        given, made = (
            [each for each in tree_leaves(leaves) if isinstance(each, torch.Tensor)]
            for leaves in ((args, kwargs), result)
        )
        if function.overloadpacket.__name__ in LOOKS_UP:
            given = given[1:] + made
        self.bytes += sum(map(_bytes, (*given, *made)))
        self._keep_largest(made)
        if formula := flop_registry.get(function.overloadpacket):
            self.operations[made[0].dtype] += formula(*args, **kwargs, out_val=result)
        elif own := UNCOUNTED.get(function.overloadpacket.__name__):
            self.operations[made[0].dtype] += own(*args)

    def _keep_largest(self, made: list[torch.Tensor]) -> None:
        if not made or self._clock.counted_phase in (Phase.BACKWARD, Phase.OPTIMIZER):
            return
        largest, stack = max(made, key=_bytes), user_stack_here()
        if _bytes(largest) > self.largest.get(stack, (0, ""))[0]:
            self.largest[stack] = _bytes(largest), f"{_name(largest.dtype)} {list(largest.shape)}"


def _of_recurrent(times: int, rows: torch.Tensor, *weights: Any) -> int:
    """The operations of a recurrent layer: of its products with each row of each step, so many times."""
    matrices = [each for each in tree_leaves(weights[:2]) if isinstance(each, torch.Tensor) and each.ndim == 2]
    return times * 2 * rows.shape[:-1].numel() * sum(each.numel() for each in matrices)


UNCOUNTED: dict[str, Callable[..., int]] = {
    "mkldnn_rnn_layer": partial(_of_recurrent, 1),
    "mkldnn_rnn_layer_backward": partial(_of_recurrent, 2),
    "_cudnn_rnn": partial(_of_recurrent, 1),
    "_cudnn_rnn_backward": partial(_of_recurrent, 2),
    "_scaled_dot_product_flash_attention_for_cpu": lambda q, k, v, *_: sdpa_flop_count(q.shape, k.shape, v.shape),
    "_scaled_dot_product_flash_attention_for_cpu_backward": lambda out, q, k, v, *_: sdpa_backward_flop_count(
        out.shape, q.shape, k.shape, v.shape
    ),
}
"""Products inside of operators for which torch has no formula."""


@cache
def moves_nothing(operator: Any) -> bool:
    """Return whether an operator makes a view of what it is given, or leaves what it makes empty."""
    schema = operator._schema
    views = any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)
    return views or "empty" in schema.name


def _bytes(tensor: torch.Tensor) -> int:
    """The bytes of a tensor: of one that is expanded, those that there are."""
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        return 0
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


# What the device can do


def _rates(device: torch.device, dtype: torch.dtype) -> Iterator[tuple[str, float]]:
    """Yield the operations per second of a matrix product, in the script's type and in others that it could use."""
    for each in dict.fromkeys((dtype, torch.float32, torch.bfloat16)):
        yield _name(each), _product_rate(device, each)
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda" and before == "highest":
        torch.set_float32_matmul_precision("high")
        try:
            yield "TF32", _product_rate(device, torch.float32)
        finally:
            torch.set_float32_matmul_precision(before)


def _product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second: of a product that is as large as keeps the device busy for some milliseconds."""
    size, least_s = 256, 0.003
    while True:
        ensure_free(3 * size * size * dtype.itemsize, device)
        dice = torch.Generator(device).manual_seed(0)  # the script's own draws nothing
        one, other = (torch.rand(size, size, generator=dice, device=device).to(dtype) for _ in range(2))
        result = torch.empty_like(one)
        product = lambda one=one, other=other, result=result: torch.mm(one, other, out=result)  # noqa: E731
        took_s = _shortest_s(product, device, 0.0)
        if took_s > least_s or size >= 8192:
            return float(2 * size**3 / _shortest_s(product, device, RATED_S))
        size *= 2


def _copied(device: torch.device, size: int = 2**26) -> float:
    """Bytes per second that a copy reads and writes."""
    ensure_free(2 * size, device)
    one, other = torch.zeros(2, size, dtype=torch.uint8, device=device)
    return 2 * size / _shortest_s(lambda: one.copy_(other), device, RATED_S)


def _shortest_s(run: Callable[[], object], device: torch.device, seconds: float) -> float:
    """The shortest of some passes, without any gradients or casts."""
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        run()
        shortest_s, until_s = float("inf"), monotonic() + seconds
        while True:
            wait_for_gpu()
            began_s = monotonic()
            run()
            wait_for_gpu()
            shortest_s = min(shortest_s, monotonic() - began_s)
            if monotonic() > until_s:
                return shortest_s


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
