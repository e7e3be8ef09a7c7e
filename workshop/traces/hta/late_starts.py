"""Which ranks begin their communication late, by the rule of HolisticTraceAnalysis.

`steps.stragglers` has a rule of its own, which needs no common clock: the rank that hardly waits for the others.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from workshop.traces.breakdown import COMMUNICATION
from workshop.traces.intervals import Ints
from workshop.traces.steps import step_numbers
from workshop.traces.trace import Mask, Trace
from workshop.traces.trace_files import Rank

MIN_SHARE = 0.01
"""Shorter communication, as a share of the mean time of a step, makes no rank wait."""

Key = tuple[int, str]


class LastKernel(NamedTuple):
    """The last long kernel of a stream and a name in one step of one rank, in ns."""

    step: int
    rank: Rank
    ts: int
    dur: int


def late_starts(traces: dict[Rank, Trace], steps: list[int] | None = None, count: int = 2) -> list[Rank]:
    """Return at most `count` ranks, the one first that was most often among the `count` latest of a step.

    Args:
        traces: the traces of all ranks.
        steps: the numbers of the steps to compare; None for all.
        count: how many ranks are to be found.
    """
    times: Counter[Rank] = Counter()
    by_step = defaultdict(list)
    for kernel in compared_kernels(traces, steps):
        by_step[kernel.step].append(kernel)
        times[kernel.rank] += 0
    for kernels in by_step.values():
        latest = sorted((kernel.ts for kernel in kernels), reverse=True)[:count][-1]
        times.update(kernel.rank for kernel in kernels if kernel.ts >= latest)
    return sorted(times, key=lambda rank: -times[rank])[:count]


def compared_kernels(traces: dict[Rank, Trace], steps: list[int] | None = None) -> list[LastKernel]:
    """Return the last kernel of one collective operation in each step of each rank.

    A collective operation ends on all ranks at once, so the rank that begins it last is the one that the others wait
    for. The operation is the one whose duration differs most between the ranks; it takes at least a hundredth of a
    step. The clocks of all ranks have to agree. Nothing is returned without such an operation on several ranks. A trace
    without steps counts as one step.
    """
    found = _last_long_kernels(traces, steps)
    spread = {key: value for key, each in found.items() if (value := _spread(each)) is not None}
    return found[max(spread, key=lambda key: spread[key])] if spread else []


def _last_long_kernels(traces: dict[Rank, Trace], steps: list[int] | None) -> dict[Key, list[LastKernel]]:
    numbers = {rank: step_numbers(trace) for rank, trace in traces.items()}
    chosen = {rank: each >= 0 if steps is None else np.isin(each, steps) for rank, each in numbers.items()}
    least = MIN_SHARE * _mean_step(traces, numbers, chosen)
    found: dict[Key, dict[tuple[int, Rank], LastKernel]] = defaultdict(dict)
    for rank, trace in traces.items():
        here = chosen[rank] & trace.on_gpu & trace.named(COMMUNICATION) & (trace.events.dur >= least)
        events, step = trace.events[here], numbers[rank][here]
        for row in np.argsort(events.ts, kind="stable"):  # the last is written last
            key = int(events.stream[row]), trace.names[events.name[row]]
            last = LastKernel(int(step[row]), rank, int(events.ts[row]), int(events.dur[row]))
            found[key][last.step, rank] = last
    return {key: [*each.values()] for key, each in found.items()}


def _mean_step(traces: dict[Rank, Trace], numbers: dict[Rank, Ints], chosen: dict[Rank, Mask]) -> float:
    """Return the time from the first event of the chosen steps to the last, divided by the number of steps, in ns."""
    events = [trace.events[chosen[rank]] for rank, trace in traces.items() if chosen[rank].any()]
    if not events:
        return 0.0
    count = len({*np.concatenate([numbers[rank][chosen[rank]] for rank in traces]).tolist()})
    return float(max(each.end.max() for each in events) - min(each.ts.min() for each in events)) / count


def _spread(kernels: list[LastKernel]) -> float | None:
    """Return how much a duration differs between ranks: the mean over the steps of the standard deviation."""
    by_step = defaultdict(list)
    for kernel in kernels:
        by_step[kernel.step].append(kernel.dur)
    found = [float(np.std(each, ddof=1)) for each in by_step.values() if len(each) > 1]
    return float(np.mean(found)) if found else None
