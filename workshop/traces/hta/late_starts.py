"""Which ranks begin their communication late, by the rule of HolisticTraceAnalysis. Needs pandas.

`steps.stragglers` has another rule, which needs no common clock: the rank that hardly waits for the others.
"""

from typing import TYPE_CHECKING

import numpy as np

from workshop.traces.breakdown import COMMUNICATION
from workshop.traces.hta.frames import data_frame, joined
from workshop.traces.steps import step_numbers
from workshop.traces.trace import Trace
from workshop.traces.trace_files import Rank

if TYPE_CHECKING:
    import pandas


def late_starts(traces: dict[Rank, Trace], steps: list[int] | None = None, count: int = 2) -> list[Rank]:
    """Return at most `count` ranks, the one first that was most often among the `count` latest of a step.

    `steps` are the numbers of the steps to compare; None for all.
    """
    kernels = compared_kernels(traces, steps)
    late = kernels.groupby("step")["ts"].rank(ascending=False, method="min") <= count
    times = late.groupby(kernels["rank"], sort=False).sum().sort_values(ascending=False, kind="stable")
    return times.index[:count].tolist()


def compared_kernels(traces: dict[Rank, Trace], steps: list[int] | None = None) -> "pandas.DataFrame":
    """Return the last kernel of one collective operation in each step of each rank; times in ns.

    A collective operation ends on all ranks at once, so the rank that begins it last is the one that the others wait
    for. The operation is the one whose duration differs most between the ranks; it takes at least a hundredth of a
    step. The clocks of all ranks have to agree. Nothing is returned without such an operation on several ranks. A trace
    without steps counts as one step.
    """
    tables = []
    for rank, trace in traces.items():
        step = step_numbers(trace)
        here = step >= 0 if steps is None else np.isin(step, steps)
        events = trace.events[here]
        names = np.array([*trace.names, ""], object)[events.name]
        columns = {"step": step[here], "rank": rank, "stream": events.stream, "name": names}
        columns |= {
            "ts": events.ts,
            "dur": events.dur,
            "communicates": (trace.on_gpu & trace.named(COMMUNICATION))[here],
        }
        tables.append(data_frame(columns).sort_values("ts", kind="stable"))
    found = joined(tables)
    mean_step = ((found["ts"] + found["dur"]).max() - found["ts"].min()) / max(found["step"].nunique(), 1)
    found = found[found["communicates"] & (found["dur"] >= 0.01 * mean_step)]
    found = found.drop_duplicates(["stream", "name", "step", "rank"], keep="last")
    operation = ["stream", "name"]
    spread = found.groupby([*operation, "step"], sort=False)["dur"].std().groupby(operation, sort=False).mean().dropna()
    if not len(spread):
        return found[:0]
    stream, name = spread.idxmax()
    return found[(found["stream"] == stream) & (found["name"] == name)]
