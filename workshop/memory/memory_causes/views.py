"""Small views that somebody keeps, and with each the whole tensor that it is a part of."""

from collections import defaultdict
from collections.abc import Iterator

from workshop.memory.assignments import made_at
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import MIN_HOLDER_STEPS, innermost, memory_of, peak_segment
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import TensorRow

VIEWS_KEPT = MemoryCause(
    "views-kept",
    "{holder} holds views of {viewed_mib:.2f} MiB together, and each view keeps the whole tensor that it is a part of. "
    "Keep a copy of the part: .clone(). What is written into the tensor later does not reach a copy.",
    "counted: what they are views of, less the views",
)

MIN_TIMES = 4
"""Times that views must be smaller than what they keep, at least."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what holds views, as it was when holders were last looked for."""
    record = measured.record
    of_holders: defaultdict[tuple[str, str], list[TensorRow]] = defaultdict(list)
    for row in record.last.at_end if record.last else ():
        holds_all = row.holder_steps >= MIN_HOLDER_STEPS or row.count == 1
        is_kept = bool(row.holder) and holds_all and not row.by_graph and row.older_bytes > 0
        if is_kept and 0 < row.viewed_bytes * MIN_TIMES <= row.bytes:
            of_holders[row.device, row.holder].append(row)
    for (device, holder), rows in of_holders.items():
        if peak := peak_segment(record, device):
            made = innermost(record.stack_of(max(rows, key=lambda each: each.bytes)))
            at = made_at(holder, rows[0].holder_stack, made)
            viewed = sum(each.viewed_bytes for each in rows)
            size, whole = sum(each.bytes for each in rows) - viewed, memory_of(peak, device).peak_bytes
            yield MemoryFinding(VIEWS_KEPT, device, size, whole, at, holder, figures={"viewed_mib": viewed / 2**20})
