"""What changed between two runs, by their traces: how long a step takes, what it is made of, and what is noise.

A step is made of phases, operators, kernels, annotations and streams, exact to the ns. The ranks of a run take its
steps together, so a step is one sample, however many ranks there are.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workshop import noise
from workshop.probe.phases import Phase
from workshop.traces.breakdown import Row
from workshop.traces.decoding import TraceError
from workshop.traces.event_columns import at_the_top
from workshop.traces.intervals import Ints, Spans, meetings, sums, union, without
from workshop.traces.steps import phase_spans, traced_steps, with_the_rest
from workshop.traces.trace import Trace
from workshop.traces.trace_files import Rank, number_of

TABLES = {
    "phases": "What the thread that trains did (it sums up to the whole)",
    "operators": "Self time of its operators, and the rest (it sums up to the whole)",
    "kernels": "Kernels, copies and sets: time on the device (they may overlap)",
    "annotations": "Annotations (one may contain others)",
    "streams": "Streams of the devices: time of what runs there",
}
"""What a step is broken down by, and the titles of the tables; times are those of a mean step, or of the whole run."""

NO_OPERATOR = "no operator: "
"""The prefix of the name of a phase in which the training thread ran no operator."""

Times = dict[str, Ints]


@dataclass(frozen=True)
class StepTimes:
    """The steps of a run; all times are in ns, and are sums over the ranks."""

    ranks: int
    on_device: bool
    duration: Ints
    tables: dict[str, Times]
    """What each step is made of, by the name of the table in `TABLES`."""
    begins: dict[Rank, int]
    """When the first of these steps began, by the clock of each trace that has one of them."""


def has_steps(traces: dict[Rank, Trace]) -> bool:
    """Return whether every rank has steps of the profiler."""
    found: dict[int, int] = defaultdict(int)
    for rank, trace in traces.items():
        found[number_of(rank)] += len(traced_steps(trace))
    return all(found.values())


def step_times(traces: dict[Rank, Trace], by_step: bool) -> StepTimes:
    """Return the times of the steps that all ranks have; or of one step, which is the whole recording."""
    windows = _step_windows(traces) if by_step else {rank: _whole(trace) for rank, trace in traces.items()}
    windows = {rank: each for rank, each in windows.items() if len(each[1])}
    steps = 1 + max(int(step.max()) for _, step in windows.values())
    duration = np.zeros(steps, np.int64)
    tables: dict[str, Times] = {name: defaultdict(lambda: np.zeros(steps, np.int64)) for name in TABLES}
    for rank, (spans, step) in windows.items():
        np.add.at(duration, step, spans.end - spans.start)
        for table, times in _tables_of(traces[rank], spans).items():
            for name, time in times.items():
                np.add.at(tables[table][name], step, time)
    return StepTimes(
        len({number_of(rank) for rank in traces}),
        any(len(trace.gpu) for trace in traces.values()),
        duration,
        {table: {name: time for name, time in times.items() if time.any()} for table, times in tables.items()},
        {rank: int(spans.start[0]) for rank, (spans, _) in windows.items()},
    )


def _step_windows(traces: dict[Rank, Trace]) -> dict[Rank, tuple[Spans, Ints]]:
    """Return the steps of each trace that all ranks have, and which step of the run each is, from 0.

    Of more than three steps, the first is left out: it includes one-time work, such as starting workers, allocating
    memory and choosing kernels, and a single such outlier would hide all smaller differences.
    """
    kept = {}
    numbers: dict[int, set[int]] = defaultdict(set)
    for rank, trace in traces.items():
        steps, known = traced_steps(trace), numbers[number_of(rank)]
        steps = [step for step in steps[len(steps) > 3 :] if step.number not in known]
        first = {step.number: step for step in reversed(steps)}  # a rank takes each step once
        kept[rank] = sorted(first.values(), key=lambda step: step.start)
        known.update(first)
    common = set.intersection(*numbers.values())
    # Where the ranks count from different numbers, the first steps belong together.
    rows = {rank: {number: at for at, number in enumerate(sorted(common or found))} for rank, found in numbers.items()}
    count = min(map(len, rows.values()))
    windows = {}
    for rank, steps in kept.items():
        row = rows[number_of(rank)]
        chosen = [step for step in steps if row.get(step.number, count) < count]
        spans = Spans(np.array([step.start for step in chosen]), np.array([step.end for step in chosen]))
        windows[rank] = spans, np.array([row[step.number] for step in chosen], np.int64)
    return windows


def _whole(trace: Trace) -> tuple[Spans, Ints]:
    events = trace.events
    start, end = (int(events.ts.min()), int(events.end.max())) if len(events) else (0, 0)
    return Spans(np.array([start]), np.array([end])), np.zeros(1, np.int64)


def _tables_of(trace: Trace, windows: Spans) -> dict[str, Times]:
    phases = phase_spans(trace)
    return {
        "phases": with_the_rest(phases, windows, windows.end - windows.start),
        "operators": _operators(trace, phases, windows),
        "kernels": _launched(trace, trace.names, trace.gpu.name, windows),
        "annotations": _annotations(trace, windows),
        "streams": _streams(trace, windows),
    }


def _operators(trace: Trace, phases: dict[Phase, Spans], windows: Spans) -> Times:
    """Return the self time of operators on the training thread, and its time without an operator by the phase."""
    events = trace.events[trace.on_main_thread & trace.of("cpu_op")]
    row, running = at_the_top(events)
    found = meetings(running, windows)
    lengths = found.end - found.start
    times = _grouped(trace.names, events.name[row[found.one]], found.other, lengths, len(windows.start))
    without_one = windows.end - windows.start - sums(found.other, lengths, len(windows.start))
    busy = union(*running)
    idle = with_the_rest({phase: without(when, busy) for phase, when in phases.items()}, windows, without_one)
    return times | {f"{NO_OPERATOR}{phase}": time for phase, time in idle.items()}


def _annotations(trace: Trace, windows: Spans) -> Times:
    events = trace.events[trace.of("user_annotation") & ~trace.named("ProfilerStep")]
    found = meetings(Spans(events.ts, events.end), windows)
    return _grouped(trace.names, events.name[found.one], found.other, found.end - found.start, len(windows.start))


def _streams(trace: Trace, windows: Spans) -> Times:
    """Return the time on each stream; the device is named if there are several, for each rank has one of its own."""
    places, place = np.unique(np.stack([trace.gpu.device, trace.gpu.stream]), axis=1, return_inverse=True)
    several = len(set(places[0].tolist())) > 1
    labels = [f"device {device}, " * several + f"stream {stream}" for device, stream in places.T.tolist()]
    return _launched(trace, labels, place.reshape(-1), windows)


def _launched(trace: Trace, labels: list[str], label: Ints, windows: Spans) -> Times:
    """Return how long what was launched in each window ran on the device, be that later, by a label of each event."""
    window = np.searchsorted(windows.start, trace.launched_at, side="right") - 1
    inside = (window >= 0) & (trace.launched_at <= windows.end[window])
    return _grouped(labels, label[inside], window[inside], trace.gpu.dur[inside], len(windows.start))


def _grouped(labels: list[str], label: Ints, window: Ints, lengths: Ints, windows: int) -> Times:
    """Return the sum of lengths in each window by their label."""
    used, row = np.unique(label, return_inverse=True)
    times = np.zeros((len(used), windows), np.int64)
    np.add.at(times, (row, window), lengths)
    return {labels[number]: time for number, time in zip(used.tolist(), times, strict=True)}


@dataclass(frozen=True)
class TimeChange:
    """A time in a mean step of one rank before and after, in ns."""

    name: str
    before_ns: float
    after_ns: float
    margin_ns: float
    """Half the width of the confidence interval of the difference; not a number where there is one step only."""

    @property
    def difference_ns(self) -> float:
        """How much longer it takes after."""
        return self.after_ns - self.before_ns

    @property
    def worth_a_word_ns(self) -> float:
        """Nanoseconds, a hundredth of the longer one: a part that changed by less is not worth a word."""
        return 0.01 * max(self.before_ns, self.after_ns)

    @property
    def is_noise(self) -> bool:
        """Whether the difference may well be none."""
        return self.difference_ns == 0 or abs(self.difference_ns) <= self.margin_ns

    @property
    def presence(self) -> str:
        """Whether it is "new", "gone", or was there in "both"."""
        return "gone" if not self.after_ns else "both" if self.before_ns else "new"

    @property
    def remark(self) -> str:
        """A word about it: "noise", "new", "gone", or none."""
        return "noise" if self.is_noise else self.presence if self.presence != "both" else ""

    def row(self) -> Row:
        """Return the change as a row of a table, in µs."""
        known = not math.isnan(self.margin_ns)
        difference = self.difference_ns
        return {
            "name": self.name,
            "before(us)": self.before_ns / 1000,
            "after(us)": self.after_ns / 1000,
            "difference(us)": difference / 1000,
            "least(us)": (difference - self.margin_ns) / 1000 if known else None,
            "most(us)": (difference + self.margin_ns) / 1000 if known else None,
            "noise": self.is_noise if known else None,
            "presence": self.presence,
        }


@dataclass(frozen=True)
class RunDifference:
    """The difference of two runs."""

    before: StepTimes
    after: StepTimes
    by_step: bool
    """Whether steps were compared; else the whole recordings were, as one of the two has no steps."""
    step: TimeChange
    seen_ns: float
    """So large a difference of a step would have been seen four times in five; not a number with one step only."""
    tables: dict[str, list[TimeChange]]
    """What a step is made of, by the name of the table; what changed most comes first, and what is noise last."""


def compare(before: dict[Rank, Trace], after: dict[Rank, Trace]) -> RunDifference:
    """Return what changed from one run to another; each is the traces of all its ranks.

    Raises:
        TraceError: one of the two has no events.
    """
    for side in (before, after):
        if not any(len(trace.events) for trace in side.values()):
            raise TraceError(f"{next(iter(side.values())).path} has no events to compare")
    by_step = has_steps(before) and has_steps(after)
    one, other = step_times(before, by_step), step_times(after, by_step)
    [step] = _changes(["step"], [one.duration], [other.duration], one.ranks, other.ranks)
    found = noise.change(one.duration / one.ranks, other.duration / other.ranks)
    seen = float(found.margin(noise.ERROR_RATE) + found.margin(2 * 0.2))  # it is overlooked once in five times
    return RunDifference(one, other, by_step, step, seen, {table: _table(one, other, table) for table in TABLES})


def _table(before: StepTimes, after: StepTimes, table: str) -> list[TimeChange]:
    one, other = before.tables[table], after.tables[table]
    names = list(dict.fromkeys([*one, *other]))
    nothing, none = np.zeros_like(before.duration), np.zeros_like(after.duration)
    times = [one.get(name, nothing) for name in names], [other.get(name, none) for name in names]
    found = _changes(names, *times, before.ranks, after.ranks)
    # What is a smaller part of a step than this is listed among the noise.
    least = 0.001 * max(before.duration.mean() / before.ranks, after.duration.mean() / after.ranks)

    def rank(change: TimeChange) -> tuple[bool, float, str]:
        size = abs(change.difference_ns)
        return change.is_noise or size < least, -size, change.name

    return sorted(found, key=rank)


def _changes(
    names: Sequence[str], before: Sequence[Ints], after: Sequence[Ints], ranks_before: int, ranks_after: int
) -> list[TimeChange]:
    """Return the changes of some times in each step, with intervals that hold together."""
    if not names:
        return []
    one, other = np.stack(before) / ranks_before, np.stack(after) / ranks_after
    margin = noise.change(one, other).margin(noise.ERROR_RATE / len(names))
    columns = (names, one.mean(axis=1).tolist(), other.mean(axis=1).tolist(), margin.tolist())
    return [TimeChange(*row) for row in zip(*columns, strict=True)]
