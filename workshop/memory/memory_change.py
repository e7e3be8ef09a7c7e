"""What has changed between two measurements of a script's memory."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workshop.errors import WorkshopError
from workshop.file_kind import wrong_kind

NOISE_OF_TENSORS = 0.02
NOISE_OF_PROCESSES = 0.05
"""A difference of a smaller share of the whole may be noise: batches differ, and so does what the kernel keeps."""

MIN_SHARE = 0.01
"""Lines that differ by a smaller share of the peak are left out."""

Values = Mapping[str, Any]


@dataclass(frozen=True)
class MemoryChange:
    """What something takes in two measurements, in bytes."""

    name: str
    before: float
    after: float
    more_than_noise: bool


def read_saved_memory(path: Path) -> Values:
    """Read what `workshop memory --save` has written.

    Raises:
        WorkshopError: the file is not a saved measurement of memory.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        found["peaks"], found["growing"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        wanted = "no measurement that workshop memory --save has written"
        raise WorkshopError(wrong_kind(path, wanted, "name one")) from error
    return found


def memory_changes(before: Values, after: Values) -> list[MemoryChange]:
    """Return the changes of the peaks and their kinds, of the processes, of what grows, and of lines.

    Raises:
        WorkshopError: one is a snapshot of torch, which has other kinds.
    """
    if before.get("followed", True) != after["followed"]:
        raise WorkshopError("a snapshot of torch is compared with another one only: it has no kinds of tensors")
    return [*_peaks(before, after), *_processes(before, after), *_growth(before, after), *_lines(before, after)]


def _change(name: str, sizes: list[float], margin: float) -> MemoryChange:
    before, after = sizes
    return MemoryChange(name, before, after, abs(after - before) > margin)


def _peaks(before: Values, after: Values) -> Iterator[MemoryChange]:
    of_before, of_after = ({each["device"]: each for each in values["peaks"]} for values in (before, after))
    for device in dict.fromkeys([*of_before, *of_after]):
        one, other = of_before.get(device), of_after.get(device)
        peaks = [float(each["peak_bytes"]) if each else 0.0 for each in (one, other)]
        margin = NOISE_OF_TENSORS * max(peaks)
        yield _change(f"peak of {device}", peaks, margin)
        kinds = [each["kinds"] if each else {} for each in (one, other)]
        for kind in dict.fromkeys([*kinds[0], *kinds[1]]):
            sizes = [float(each.get(kind, 0)) for each in kinds]
            yield _change(f"  {kind}", sizes, margin)


def _processes(before: Values, after: Values) -> Iterator[MemoryChange]:
    if before["host"] and after["host"]:
        sizes = [float(each["host"]["together_bytes"]) for each in (before, after)]
        yield _change("all processes", sizes, NOISE_OF_PROCESSES * max(sizes))


def _growth(before: Values, after: Values) -> Iterator[MemoryChange]:
    """What grows, in bytes a step, all lines together."""
    rates = [sum(float(line["bytes_a_step"]) for line in each["growing"]) for each in (before, after)]
    if any(rates):
        yield MemoryChange(
            "growth in 1000 steps", 1e3 * rates[0], 1e3 * rates[1], abs(rates[1] - rates[0]) > 0.1 * max(rates)
        )


def _lines(before: Values, after: Values) -> Iterator[MemoryChange]:
    """The lines at the peak that changed, matched by their text, if it is known: line numbers shift."""
    peak = max((float(each["peak_bytes"]) for values in (before, after) for each in values["peaks"]), default=0.0)
    both = [_by_text(each["peaks"]) for each in (before, after)]
    changed = [(key, both[0][key], both[1][key]) for key in both[0] | both[1]]
    for (kind, function, text), one, other in sorted(changed, key=lambda each: -abs(each[2] - each[1])):
        if abs(other - one) > MIN_SHARE * peak:
            yield MemoryChange(f"{kind}, {function}: {text}", one, other, abs(other - one) > NOISE_OF_TENSORS * peak)


def _by_text(peaks: list[Values]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for each in (line for peak in peaks for line in peak["lines"]):
        place = f"{Path(each['file']).name}:{each['line']}" if each["file"] else ""
        found[each["kind"], each["function"], each["text"] or place] += each["bytes"]
    return found
