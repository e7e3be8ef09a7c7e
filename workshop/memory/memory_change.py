"""What has changed between two measurements of a script's memory."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from workshop import noise
from workshop.diagnosis.change import Change, Measure, Values, read_saved
from workshop.errors import WorkshopError
from workshop.notebooks.cell_places import place

SAME_TENSORS, SAME_PROCESSES, SAME_GROWTH = 0.02, 0.05, 0.1
"""Shares of the whole, at most, by which two runs of the same script differ: what the kernel keeps differs, and so does
what is caught in a few steps."""

MIN_SHARE = 0.01
"""Share of the peak, at least, by which a line differs that is told."""


def read_saved_memory(path: Path) -> Values:
    """Read what `workshop memory --save` has written.

    Raises:
        WorkshopError: the file is not a saved measurement of memory.
    """
    return read_saved(path, "memory", lambda found: (found["peaks"], found["growing"]))


def memory_changes(before: Values, after: Values) -> list[Change]:
    """Return the changes of the peaks and their kinds, of the processes, of what grows, and of lines.

    Raises:
        WorkshopError: one is a snapshot of torch, which has other kinds.
    """
    if before.get("followed", True) != after["followed"]:
        raise WorkshopError("a snapshot of torch is compared with another one only: it has no kinds of tensors")
    return [*_peaks(before, after), *_processes(before, after), *_growth(before, after), *_lines(before, after)]


def _change(name: str, sizes: Iterable[float], margin: float) -> Change:
    before, after = map(float, sizes)
    return Change(name, before, after, margin, measure=Measure.BYTES)


def _peaks(before: Values, after: Values) -> Iterator[Change]:
    of_before, of_after = ({each["device"]: each for each in values["peaks"]} for values in (before, after))
    for device in dict.fromkeys([*of_before, *of_after]):
        one, other = of_before.get(device, {}), of_after.get(device, {})
        sizes = [each.get("peak_bytes", 0) for each in (one, other)]
        margin = max(SAME_TENSORS * max(sizes), _margin_of_steps(one, other))
        yield _change(f"peak of {device}", sizes, margin)
        kinds = [each.get("kinds", {}) for each in (one, other)]
        for kind in dict.fromkeys([*kinds[0], *kinds[1]]):
            yield _change(f"  {kind}", (each.get(kind, 0) for each in kinds), margin)


def _margin_of_steps(before: Values, after: Values) -> float:
    """By how much the peaks of steps differ by chance, as where batches are of several lengths; 0 if nobody knows."""
    of_steps = [each.get("steps_bytes", ()) for each in (before, after)]
    return float(noise.change(*of_steps).margin(noise.ERROR_RATE)) if min(map(len, of_steps)) > 1 else 0.0


def _processes(before: Values, after: Values) -> Iterator[Change]:
    if before["host"] and after["host"]:
        sizes = [each["host"]["together_bytes"] for each in (before, after)]
        yield _change("all processes", sizes, SAME_PROCESSES * max(sizes))


def _growth(before: Values, after: Values) -> Iterator[Change]:
    rates = [1e3 * sum(line["bytes_a_step"] for line in each["growing"]) for each in (before, after)]
    if any(rates):
        yield _change("growth in 1000 steps", rates, SAME_GROWTH * max(rates))


def _lines(before: Values, after: Values) -> Iterator[Change]:
    """The lines at the peak that changed, matched by their text, if it is known: line numbers shift."""
    peak = max((float(each["peak_bytes"]) for values in (before, after) for each in values["peaks"]), default=0.0)
    both = [_by_text(each["peaks"]) for each in (before, after)]
    changed = [(key, both[0][key], both[1][key]) for key in both[0] | both[1]]
    for (kind, function, text), one, other in sorted(changed, key=lambda each: -abs(each[2] - each[1])):
        if abs(other - one) > MIN_SHARE * peak:
            yield _change(f"{kind}, {function}: {text}", (one, other), SAME_TENSORS * peak)


def _by_text(peaks: list[Values]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for each in (line for peak in peaks for line in peak["lines"]):
        at = place(each["file"], each["line"]) if each["file"] else ""
        found[each["kind"], each["function"], each["text"] or at] += each["bytes"]
    return found
