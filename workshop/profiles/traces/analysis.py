"""The analyses for a notebook: data frames and charts, under the names that HolisticTraceAnalysis gave them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workshop.profiles.traces import breakdown, charts, copies, findings, operators, steps
from workshop.profiles.traces.decoding import TraceError
from workshop.profiles.traces.ranks import Rank, Traces, load
from workshop.profiles.traces.tables import rows_of_all
from workshop.profiles.traces.trace import Trace

if TYPE_CHECKING:
    import pandas


class TraceAnalysis:
    """Traces, and what can be said of them.

    Args:
        trace_files: the traces, also with the ranks that they are of.
        trace_dir: or a folder that has them.

    Raises:
        TraceError: there is none.
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
        """How long each device computes, does something else, and is idle."""
        found = self._frame(breakdown.temporal)
        if visualize:
            shares = ["idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg"]
            charts.bars(found, "rank", shares, "Where the time of each device goes (%)")
        return found

    def get_idle_time_breakdown(
        self,
        ranks: list[Rank] | None = None,
        consecutive_kernel_delay: float = breakdown.KERNEL_WAIT_NS,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
    ) -> "tuple[pandas.DataFrame, pandas.DataFrame | None]":
        """Why each stream was idle, and, if asked for, how long its gaps were.

        Args:
            ranks: of these alone.
            consecutive_kernel_delay: in ns; a shorter gap is what it takes to start a kernel.
            visualize: draw it.
            visualize_pctg: in shares rather than in µs.
            show_idle_interval_stats: give a second frame, with statistics over the gaps.
        """
        delay = int(consecutive_kernel_delay)
        found = self._frame(lambda trace: breakdown.idle(trace, delay), ranks)
        if visualize and len(found):
            place = "rank " + found["rank"].astype(str) + ", " + found["stream"].astype(str)
            value = "idle_time_ratio" if visualize_pctg else "idle_time"
            wide = found.assign(place=place).pivot_table(index="place", columns="idle_category", values=value)
            charts.bars(wide.reset_index(), "place", list(wide.columns), "Why each stream is idle")
        if not show_idle_interval_stats:
            return found, None
        return found, self._frame(lambda trace: breakdown.gap_statistics(trace, delay), ranks)

    def get_comm_comp_overlap(self, visualize: bool = True) -> "pandas.DataFrame":
        """How much of the communication is hidden under computation."""
        found = self._frame(breakdown.comm_comp)
        if visualize:
            charts.bars(found, "rank", ["comp_comm_overlap_pctg"], "Communication hidden under computation (%)")
        return found

    def get_cuda_kernel_launch_stats(
        self, ranks: list[Rank] | None = None, visualize: bool = True
    ) -> "dict[Rank, pandas.DataFrame]":
        """Each launch, by rank: how long the call took, what it launched, and how long that waited; in µs."""
        times = ["cpu_duration", "gpu_duration", "launch_delay"]
        tables = {}
        for rank, trace in self._chosen(ranks).items():
            found = breakdown.launches(trace)._asdict()
            columns = {name: found[name] / 1000 for name in times}
            names = [trace.names[number] for number in found["name"]]
            tables[rank] = charts.frame({"correlation": found["correlation"]} | columns | {"name": names})
            if visualize:
                charts.histogram(tables[rank], times, f"Rank {rank}: launches (µs)")
        return tables

    def get_gpu_kernel_breakdown(self, visualize: bool = True) -> "tuple[pandas.DataFrame, pandas.DataFrame]":
        """How long each kind of kernel ran, and each kernel."""
        kinds, kernels = self._frame(breakdown.kernel_types), self._frame(breakdown.kernels)
        if visualize:
            charts.pie(kinds, "kernel_type", "sum", "Time by kind of kernel")
        return kinds, kernels

    def get_operators(self) -> "pandas.DataFrame":
        """Operators by the time that they took themselves."""
        return self._frame(operators.operators)

    def get_steps(self) -> "pandas.DataFrame":
        """Steps and their phases."""
        return self._frame(steps.step_rows)

    def get_memory_copies(self) -> "pandas.DataFrame":
        """Copies by kind: how much, how fast, and how much of them under computation."""
        return self._frame(copies.copies)

    def get_stragglers(self) -> "pandas.DataFrame":
        """Ranks by what they do by themselves in a step; the slowest first."""
        return charts.frame(steps.stragglers(self.traces))

    def get_findings(self) -> list[str]:
        """What costs time, in words, the dearest first."""
        return [str(finding) for finding in findings.findings(self.traces)]

    def _chosen(self, ranks: list[Rank] | None) -> dict[Rank, Trace]:
        return {rank: trace for rank, trace in self.traces.items() if ranks is None or rank in ranks}

    def _frame(self, analysis: Callable[[Trace], Any], ranks: list[Rank] | None = None) -> "pandas.DataFrame":
        return charts.frame(rows_of_all(self._chosen(ranks), analysis))
