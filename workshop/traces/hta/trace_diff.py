"""Operators and kernels of two traces compared, for notebooks, as `TraceDiff` of HolisticTraceAnalysis does.

By its rules, a step has the events that the CPU began in it, and what they launched on a device. Needs pandas; the
charts need plotly.
"""

import warnings
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workshop.terminal import some_of
from workshop.traces.decoding import TraceError
from workshop.traces.hta import HtaEvents, by_rank, hta_events
from workshop.traces.hta.frames import data_frame, plotly_express, short_name
from workshop.traces.intervals import Ints
from workshop.traces.steps import number_in
from workshop.traces.trace import Trace, matching
from workshop.traces.trace_files import Traces, load

if TYPE_CHECKING:
    import pandas

STEP = r"ProfilerStep\s*#\s*\d"

Numbers = int | list[int] | None


class DeviceType(Enum):
    """Which events are compared: operators and calls of the CPU, what ran on a device, or both."""

    CPU = 1
    GPU = 2
    ALL = 3


class LabeledTrace:
    """The traces of a run, with a name for it: by default that of their folder.

    `t` are the traces, as `load` returns them; `trace_dir` is their folder, if they are not read yet.
    """

    def __init__(self, label: str | None = None, t: Traces | None = None, trace_dir: str | Path | None = None) -> None:
        if t is None and trace_dir is None:
            raise TraceError("name the folder of the traces: LabeledTrace(trace_dir=...)")
        self.t = load([Path(str(trace_dir)).expanduser()]) if t is None else t
        self.label = label or next(iter(self.t.values())).path.absolute().parent.name
        self._traces = by_rank(self.t)
        for note in self.t.notes:
            warnings.warn(note, stacklevel=2)

    def ranks(self) -> list[int]:
        """Return the numbers of the ranks."""
        return sorted(self._traces)

    def iterations(self) -> list[int]:
        """Return the numbers of the steps of all ranks."""
        return sorted({number for trace in self._traces.values() for number in _step_numbers(trace).values()})

    def extract_ops(
        self, rank: Numbers = None, iteration: Numbers = None, device_type: DeviceType = DeviceType.ALL
    ) -> "pandas.DataFrame":
        """Return the events of some ranks and steps on one kind of device: name, category, and duration in µs."""
        if not isinstance(device_type, DeviceType):
            raise TraceError(f"device_type is a DeviceType, such as DeviceType.CPU, and not {device_type!r}")
        steps = _chosen(iteration, self.iterations(), f"step in {self.label}")
        ranks = _chosen(rank, self.ranks(), f"rank in {self.label}")
        columns: dict[str, list[Any]] = {"cat": [], "name": [], "dur": []}
        for trace in map(self._traces.__getitem__, ranks):
            events = hta_events(trace)
            kept = np.isin(_iteration(trace, events), steps)
            if device_type is not DeviceType.ALL:
                kept &= (events.stream == -1) == (device_type is DeviceType.CPU)
            events = events[kept]
            columns["cat"] += [trace.cats[number] for number in events.cat]
            columns["name"] += [trace.names[number] for number in events.name]
            columns["dur"] += events.dur.tolist()
        return data_frame(columns)

    def get_ops_summary(self, ops: "pandas.DataFrame") -> "pandas.DataFrame":
        """Return the number of some events and their µs by category and name."""
        sums = ops.groupby(["cat", "name"])["dur"].agg(["count", "sum"]).reset_index()
        sums = sums.rename(columns={"count": "counts", "sum": "total_duration"})
        sums.insert(2, "short_name", [short_name(name) for name in sums["name"]])
        return sums


Run = LabeledTrace | Traces | str | Path
"""A run: its traces, or their folder."""


class TraceDiff:
    """What differs between two runs: how often each operator and kernel ran, and for how long."""

    @classmethod
    def compare_traces(
        cls,
        control: Run,
        test: Run,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,
    ) -> "pandas.DataFrame":
        """Return the number of runs and the µs of each operator and kernel in both, and the differences.

        By default, the first rank and the first step are compared. A short name is one without arguments, types of
        templates, and returned types.
        """
        by = "short_name" if use_short_name else "name"
        runs = _labeled(control, test)
        chosen = (control_rank, control_iteration), (test_rank, test_iteration)
        one, other = (
            run.get_ops_summary(run.extract_ops(rank, step, device_type))
            .groupby(by)[["counts", "total_duration"]]
            .sum()
            .add_prefix(f"{run.label}_")
            for run, (rank, step) in zip(runs, chosen, strict=True)
        )
        table = one.reindex(one.index.union(other.index, sort=False)).join(other).fillna(0)
        for column, name in ((0, "diff_counts"), (1, "diff_duration")):
            table[name] = table.iloc[:, column + 2] - table.iloc[:, column]
        table["counts_change_categories"] = np.array(["=", "+", "-"])[np.sign(table["diff_counts"]).astype(int)]
        return table

    @classmethod
    def ops_diff(
        cls,
        control: Run,
        test: Run,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> dict[str, list[str]]:
        """Return the names that were added or deleted, run more or less often, or as often; see `compare_traces`."""
        ranks, steps = (control_rank, test_rank), (control_iteration, test_iteration)
        table = cls.compare_traces(control, test, *ranks, *steps, device_type)
        before, after = table.iloc[:, 0], table.iloc[:, 2]
        there = (before > 0) & (after > 0)
        kinds = {
            "added": (before == 0) & (after > 0),
            "deleted": (before > 0) & (after == 0),
            "increased": there & (after > before),
            "decreased": there & (after < before),
            "unchanged": there & (after == before),
        }
        return {kind: table.index[rows].tolist() for kind, rows in kinds.items()}

    @classmethod
    def visualize_counts_diff(
        cls, df: "pandas.DataFrame", show_image: bool = True, export_image_path: str | None = None
    ) -> None:
        """Show, or write to an image, how often each name ran, from what `compare_traces` returned."""
        _show(df, [0, 2, 4], "Runs of operators and kernels", show_image, export_image_path)

    @classmethod
    def visualize_duration_diff(
        cls, df: "pandas.DataFrame", show_image: bool = True, export_image_path: str | None = None
    ) -> None:
        """Show, or write to an image, for how many µs each name ran, from what `compare_traces` returned."""
        _show(df, [1, 3, 5], "Time of operators and kernels (µs)", show_image, export_image_path)


def _labeled(*runs: Run) -> list[LabeledTrace]:
    """Return two runs under different names."""
    found = [
        run
        if isinstance(run, LabeledTrace)
        else LabeledTrace(label, run if isinstance(run, Traces) else load([Path(run).expanduser()]))
        for run, label in zip(runs, ("Control", "Test"), strict=True)
    ]
    if found[0].label == found[1].label:
        found[1] = LabeledTrace(f"{found[1].label}_control_test", found[1].t)
    return found


def _chosen(numbers: Numbers, there: list[int], what: str) -> list[int]:
    if not there:
        raise TraceError(f"there is no {what}")
    chosen = there[:1] if numbers is None else [numbers] if isinstance(numbers, int) else list(numbers)
    if missing := [number for number in chosen if number not in there]:
        raise TraceError(f"there is no {what} with the number {missing[0]}; there are {some_of(there)}")
    return chosen


def _step_numbers(trace: Trace) -> dict[int, int]:
    """Return the numbers of the steps by the index of their names in `Trace.names`."""
    found = np.flatnonzero(matching(trace.names, STEP)).tolist()
    return {name: number_in(trace.names[name]) for name in found}


def _iteration(trace: Trace, events: HtaEvents) -> Ints:
    """Return the number of the step of each event, or -1; that of what ran on a device is that of its launch."""
    numbers = _step_numbers(trace)
    # Triton's compiler puts operators of the CPU on stream 0.
    operators = np.array([cat == "cpu_op" for cat in trace.cats] or [False])[events.cat]
    on_cpu = (events.stream < 0) | (events.stream == 0) & operators
    begun = np.full(len(events), -1)
    for row in np.flatnonzero(np.isin(events.name, list(numbers))):
        first, behind = events.ts[row], events.ts[row] + events.dur[row]
        begun[on_cpu & (events.ts >= first) & (events.ts < behind)] = numbers[int(events.name[row])]
    launched = np.flatnonzero((events.stream > 0) & (events.partner > 0))
    found = begun.copy()
    found[launched] = begun[np.searchsorted(events.place, events.partner[launched])]
    return found


def _show(table: "pandas.DataFrame", columns: list[int], title: str, show: bool, path: str | None) -> None:
    chart = plotly_express().bar(table.iloc[:, columns], title=title, barmode="group")
    if show:
        chart.show()
    if path:
        chart.write_image(path)
