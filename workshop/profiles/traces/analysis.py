"""The analyses of traces for notebooks: data frames and charts, as HolisticTraceAnalysis names them.

They need pandas and plotly.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workshop.profiles.traces import breakdown, findings, memory, operators, steps
from workshop.profiles.traces.decoding import TraceError
from workshop.profiles.traces.ranks import Rank, Traces, load
from workshop.profiles.traces.tables import rows_of_all
from workshop.profiles.traces.trace import Trace

if TYPE_CHECKING:
    import pandas

INSTALL = "pip install pandas plotly"


class TraceAnalysis:
    """Some traces and their analyses; `visualize` asks for a chart beside the data frame.

    Args:
        trace_files: the traces, or their paths by rank.
        trace_dir: a folder of traces, or the one that the paths by rank are relative to.

    Raises:
        TraceError: there is no trace.
    """

    def __init__(
        self, trace_files: dict[int, str] | list[str] | None = None, trace_dir: str | Path | None = None
    ) -> None:
        if isinstance(trace_files, dict):
            folder = Path(trace_dir or "")
            self.traces = Traces([])
            for rank, name in trace_files.items():
                [self.traces[rank]] = load([folder / name]).values()
        elif trace_files is None and trace_dir is None:
            raise TraceError("name a folder: TraceAnalysis(trace_dir=...)")
        else:
            self.traces = load([Path(name) for name in trace_files or [str(trace_dir)]])

    def get_temporal_breakdown(self, visualize: bool = True) -> "pandas.DataFrame":
        """Return how long each device computes, does something else, and is idle."""
        found = self._frame(breakdown.temporal)
        if visualize:
            shares = ["idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg"]
            _show("bar", found, "Where the time of each device goes (%)", x="rank", y=shares)
        return found

    def get_idle_time_breakdown(
        self,
        ranks: list[Rank] | None = None,
        consecutive_kernel_delay: float = breakdown.KERNEL_WAIT_NS,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
    ) -> "tuple[pandas.DataFrame, pandas.DataFrame | None]":
        """Return why each stream was idle, and, if asked for, how long its gaps were.

        Args:
            ranks: the ranks to analyse; None for all.
            consecutive_kernel_delay: in ns; a shorter gap is the time that starting a kernel takes.
            visualize: whether to draw a chart.
            visualize_pctg: whether the chart has shares rather than µs.
            show_idle_interval_stats: whether to return a second frame, with statistics over the gaps.
        """
        delay = int(consecutive_kernel_delay)
        found = self._frame(lambda trace: breakdown.idle(trace, delay), ranks)
        if visualize and len(found):
            place = "rank " + found["rank"].astype(str) + ", " + found["stream"].astype(str)
            value = "idle_time_ratio" if visualize_pctg else "idle_time"
            wide = found.assign(place=place).pivot_table(index="place", columns="idle_category", values=value)
            _show("bar", wide.reset_index(), "Why each stream is idle", x="place", y=list(wide.columns))
        if not show_idle_interval_stats:
            return found, None
        return found, self._frame(lambda trace: breakdown.gap_statistics(trace, delay), ranks)

    def get_comm_comp_overlap(self, visualize: bool = True) -> "pandas.DataFrame":
        """Return how much of the communication is hidden under computation."""
        found = self._frame(breakdown.comm_comp)
        if visualize:
            _show("bar", found, "Communication hidden under computation (%)", x="rank", y=["comp_comm_overlap_pctg"])
        return found

    def get_cuda_kernel_launch_stats(
        self, ranks: list[Rank] | None = None, visualize: bool = True
    ) -> "dict[Rank, pandas.DataFrame]":
        """Return each launch, by rank: how long the call took, what it launched, and how long that waited; in µs."""
        times = ["cpu_duration", "gpu_duration", "launch_delay"]
        tables = {}
        for rank, trace in self._chosen(ranks).items():
            found = breakdown.launches(trace)._asdict()
            columns = {name: found[name] / 1000 for name in times}
            names = [trace.names[number] for number in found["name"]]
            tables[rank] = data_frame({"correlation": found["correlation"]} | columns | {"name": names})
            if visualize:
                _show("histogram", tables[rank], f"Rank {rank}: launches (µs)", x=times, barmode="overlay")
        return tables

    def get_gpu_kernel_breakdown(self, visualize: bool = True) -> "tuple[pandas.DataFrame, pandas.DataFrame]":
        """Return how long each kind of kernel ran, and each kernel."""
        kinds, kernels = self._frame(breakdown.kernel_types), self._frame(breakdown.kernels)
        if visualize:
            _show("pie", kinds, "Time by kind of kernel", names="kernel_type", values="sum")
        return kinds, kernels

    def get_operators(self) -> "pandas.DataFrame":
        """Return the operators by their self time."""
        return self._frame(operators.operators)

    def get_steps(self) -> "pandas.DataFrame":
        """Return the steps and their phases."""
        return self._frame(steps.step_rows)

    def get_memory_copies(self) -> "pandas.DataFrame":
        """Return the number, size and speed of the copies of each kind, and how much of them is under computation."""
        return self._frame(breakdown.copies)

    def get_allocations(self) -> "pandas.DataFrame":
        """Return what was allocated and released in each phase on each device; empty unless memory was recorded."""
        return self._frame(memory.by_phase)

    def get_memory_peaks(self) -> "tuple[pandas.DataFrame, pandas.DataFrame]":
        """Return when most memory was in use, and what was in use then by the operators that allocated it."""
        return self._frame(memory.peaks), self._frame(memory.held)

    def get_stragglers(self) -> "pandas.DataFrame":
        """Return the ranks by their own work in a step; the slowest first."""
        return data_frame(steps.stragglers(self.traces))

    def get_findings(self) -> list[str]:
        """Return sentences about what costs time; what costs most comes first."""
        return [str(finding) for finding in findings.findings(self.traces)]

    def _chosen(self, ranks: list[Rank] | None) -> dict[Rank, Trace]:
        return {rank: trace for rank, trace in self.traces.items() if ranks is None or rank in ranks}

    def _frame(self, analysis: Callable[[Trace], Any], ranks: list[Rank] | None = None) -> "pandas.DataFrame":
        return data_frame(rows_of_all(self._chosen(ranks), analysis))


def data_frame(data: Any) -> "pandas.DataFrame":
    """Return a data frame.

    Raises:
        TraceError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise TraceError(f"data frames need pandas: {INSTALL}") from None
    return pandas.DataFrame(data)


def _show(chart: str, data: "pandas.DataFrame", title: str, **options: Any) -> None:
    """Show one of the charts of plotly.express, unless there is nothing to draw."""
    if not len(data):
        return
    getattr(plotly_express(), chart)(data, title=title, **options).show()


def plotly_express() -> Any:
    """Return the module that draws charts.

    Raises:
        TraceError: plotly is not installed.
    """
    try:
        import plotly.express
    except ImportError:
        raise TraceError(f"pictures need plotly: {INSTALL}; or say visualize=False") from None
    return plotly.express
