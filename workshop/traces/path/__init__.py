"""The critical path of a training step: what the step waited for, from its end back to its start."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from workshop.traces.breakdown import Row
from workshop.traces.decoding import TraceError
from workshop.traces.intervals import Ints, sums
from workshop.traces.path.dependencies import KINDS, Graph, graph_of, operator_names
from workshop.traces.path.window import Window
from workshop.traces.steps import traced_steps
from workshop.traces.trace import Mask, Trace, once


class OnPath(NamedTuple):
    """An operator or kernel on a critical path. All times are in ns."""

    name: str
    launched_by: str | None
    runs: int
    time: int
    """The time on the path that it took itself."""
    without: int
    """The duration of the step if all runs of it took no time themselves, be they on the path or not."""


@dataclass(frozen=True)
class CriticalPath:
    """The longest path through a window: pieces, each of which begins where the one before ends."""

    window: Window
    graph: Graph
    moments: Ints
    names: list[str]

    @property
    def duration(self) -> int:
        """The duration of the window in ns."""
        return self.window.end - self.window.start

    def times(self) -> dict[str, int]:
        """Return the time on the path by its kind in `KINDS`, in ns; the sum is the duration."""
        kinds = self.graph.kind[self.moments]
        self_times = self.graph.self_time[self.moments]
        return {name: int(self_times[kinds == number].sum()) for number, name in enumerate(KINDS)}

    @cached_property
    def operators(self) -> list[OnPath]:
        """The ten operators and kernels with most time on the path, in descending order of it."""
        on_path = self.moments[(self.graph.operator[self.moments] >= 0) & (self.graph.self_time[self.moments] > 0)]
        operators, number = np.unique(self.graph.operator[on_path], return_inverse=True)
        times = sums(number, self.graph.self_time[on_path], len(operators))
        longest = np.argsort(-times, kind="stable")[:10]
        found = []
        for one, without in zip(longest.tolist(), durations_without(self.graph, operators[longest]), strict=True):
            runs = len(np.unique(self.graph.run[on_path[number == one]]))
            name, launcher = operator_names(self.names, int(operators[one]))
            found.append(OnPath(name, launcher, runs, int(times[one]), int(without)))
        return found


def durations_without(graph: Graph, operators: Ints) -> Ints:
    """Return how long the window would be without each of some operators: whatever else then decides is counted.

    Only moments with several dependencies are computed one by one; between these, self times add up along a thread.
    """
    self_times = np.where(graph.operator[:, None] == operators, 0, graph.self_time[:, None])
    by_chain = np.argsort(graph.chain, kind="stable")
    is_join = _joins(graph, by_chain)
    along = np.empty_like(self_times)
    along[by_chain] = np.cumsum(self_times[by_chain], axis=0)
    base = np.empty(len(self_times), np.int64)  # the last join at or before each moment on its thread or stream
    base[by_chain] = by_chain[np.maximum.accumulate(np.where(is_join[by_chain], np.arange(len(self_times)), 0))]
    linked = np.flatnonzero(is_join & (graph.before >= 0))
    later = np.concatenate([graph.links.later, linked])
    earlier = np.concatenate([graph.links.earlier, graph.before[linked]])
    order = np.argsort(later, kind="stable")
    sources, since = base[earlier[order]], along[earlier[order]] - along[base[earlier[order]]]
    joins, counts = np.unique(later, return_counts=True)
    times = np.zeros_like(self_times)
    begin = 0
    for join, end in zip(joins.tolist(), np.cumsum(counts).tolist(), strict=True):
        times[join] = self_times[join] + (times[sources[begin:end]] + since[begin:end]).max(axis=0)
        begin = end
    return times[-1]


def _joins(graph: Graph, by_chain: Ints) -> Mask:
    """Return which moments depend on anything but the one before them on the same thread or stream."""
    neighbour = np.empty_like(by_chain)
    neighbour[by_chain] = np.roll(by_chain, 1)
    joins = graph.before != neighbour  # kernels of one stream may overlap
    joins[graph.links.later] = True
    return joins


def critical_path(trace: Trace, window: Window) -> CriticalPath:
    """Return the critical path of a window."""
    graph = graph_of(trace, window)
    last = graph.last.tolist()
    moments = [len(last) - 1]
    while moments[-1]:
        moments.append(last[moments[-1]])
    return CriticalPath(window, graph, np.array(moments[::-1], np.int64), trace.names)


@once
def of_typical_step(trace: Trace) -> CriticalPath | None:
    """Return the critical path of `typical_step`; None for a trace without events."""
    window = typical_step(trace)
    return critical_path(trace, window) if window else None


def typical_step(trace: Trace) -> Window | None:
    """Return the step of median duration, without the first and the last if there are others; else the whole trace.

    Of two steps it is the longer one, as the profiler often records the last one only in part.
    """
    steps = [step for step in _step_windows(trace) if step.end > step.start]
    if steps:
        steps = sorted(steps[1:-1] or steps, key=lambda step: step.end - step.start)
        return steps[len(steps) // 2]
    if not len(trace.events):
        return None
    start, end = int(trace.events.ts.min()), int(trace.events.end.max())
    return Window("the whole trace", start, end, _main_thread(trace), "anything")


def _step_windows(trace: Trace) -> Iterator[Window]:
    """Yield the steps, each from the end of the one before to its own: when all is done that it launched on a device.

    Where the CPU waits for the device in every step, that is when the CPU ends it. Else the CPU is ahead, and how long
    it takes to launch a step does not tell how long the step takes.
    """
    calls, launched = trace.launched
    before = None
    for step in traced_steps(trace):
        device = int(launched.end[(calls.ts >= step.start) & (calls.ts < step.end)].max(initial=0))
        end = max(step.end, device, before or 0)
        start = step.start if before is None else max(before, step.start)
        yield Window(f"step {step.number}", start, end, _main_thread(trace), "device" if end > step.end else "thread")
        before = end


def annotated(trace: Trace, annotation: str, instance: int = 0) -> Window:
    """Return an instance of the annotations with a word in their name; they are counted from 0 in the order of time."""
    rows = np.flatnonzero(trace.of("user_annotation") & trace.named(rf".*{re.escape(annotation)}"))
    rows = rows[np.argsort(trace.events.ts[rows], kind="stable")]
    if not 0 <= instance < len(rows):
        raise TraceError(f"the trace has {len(rows)} annotations with {annotation!r}, and no instance {instance}")
    row = rows[instance]
    start, end = int(trace.events.ts[row]), int(trace.events.end[row])
    return Window(f"{trace.names[trace.events.name[row]]}, {instance}", start, end, int(trace.thread[row]))


def _main_thread(trace: Trace) -> int:
    return int(trace.thread[trace.on_main_thread][0])


def path_rows(path: CriticalPath | None) -> list[Row]:
    """Return what a path consists of, in µs; the largest part comes first."""
    if path is None or not path.duration:
        return []
    return [
        {"step": path.window.name, "kind": kind, "time(us)": time / 1000, "share_pctg": 100 * time / path.duration}
        for kind, time in sorted(path.times().items(), key=lambda each: -each[1])
        if time
    ]


def operator_rows(path: CriticalPath | None) -> list[Row]:
    """Return the operators with most time on a path, and the window without each of them; in µs."""
    if path is None or not path.duration:
        return []
    return [
        {
            "step": path.window.name,
            "name": operator.name,
            "launched_by": operator.launched_by,
            "count": operator.runs,
            "time(us)": operator.time / 1000,
            "share_pctg": 100 * operator.time / path.duration,
            "without(us)": operator.without / 1000,
            "gain_pctg": 100 * (path.duration - operator.without) / path.duration,
        }
        for operator in path.operators
    ]
