"""Copies to, from and within a device."""

import numpy as np

from workshop.profiles.traces.breakdown import Row, spans
from workshop.profiles.traces.intervals import overlap
from workshop.profiles.traces.trace import COPY, SET, Trace


def copies(trace: Trace) -> list[Row]:
    """One row for each kind of copy: how much, how fast, and how much of its time under computation. The longest first.

    "Pageable" in a name is memory that the driver has to copy once more, "Pinned" is what `pin_memory=True` gives.
    """
    events = trace.gpu[trace.of(*COPY, *SET)[trace.on_gpu]]
    computing = spans(trace, "COMPUTATION")
    rows: list[Row] = []
    for name in np.unique(events.name):
        here = events[events.name == name]
        when = here.spans()
        time, size = int(here.dur.sum()), int(here.bytes.sum())
        rows.append(
            {
                "name": trace.names[name],
                "count": len(here),
                "bytes": size,
                "time(us)": time / 1000,
                "bandwidth(GB/s)": size / time if size and time else None,
                "under_computation_pctg": 100 * overlap(when, computing).length / when.length if when.length else None,
            }
        )
    return sorted(rows, key=lambda row: (-row["time(us)"], row["name"]))
