"""The analyses of traces for notebooks: the class and the methods of HolisticTraceAnalysis, and a few of our own."""

import re
import warnings
from collections.abc import Callable
from enum import Flag, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workshop.traces import annotations, breakdown, memory, path, steps, time_series
from workshop.traces.decoding import TraceError
from workshop.traces.hta import frames, operator_kernels
from workshop.traces.hta.frames import compared_kernels, data_frame, late_starts, show
from workshop.traces.hta.path import CPGraph, overlay, window_of
from workshop.traces.rewriting import rewrite
from workshop.traces.tables import rows_of_all
from workshop.traces.trace import Trace
from workshop.traces.trace_files import Rank, Traces, load, number_of
from workshop.traces.trace_findings import findings

if TYPE_CHECKING:
    import pandas


class TimeSeriesTypes(Flag):
    """What `TraceAnalysis.generate_trace_with_counters` adds to a trace."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()


class TraceAnalysis:
    """Some traces and their analyses, by the names and with the arguments of HolisticTraceAnalysis.

    Times are in µs, and exact to the ns. `visualize` asks for a chart beside the data frame. Where `ranks` is None,
    it is rank 0, or the first one if there is no rank 0. Kernels and annotations beyond the quantile `duration_ratio`
    of the time are summed up as "others", if there are more than `num_kernels`. Cutoffs and delays are in µs. A rank,
    step or annotation that is not there is a TraceError.

    Args:
        trace_files: the paths of the traces, or these by rank.
        trace_dir: a folder of traces, or the one that the paths are relative to.
        include_last_profiler_step: whether to analyse the last of several steps, too, which is often recorded in part.

    What of the traces cannot be read is told in a warning.
    """

    def __init__(
        self,
        trace_files: dict[int, str] | list[str] | None = None,
        trace_dir: str | Path | None = None,
        include_last_profiler_step: bool | None = False,
    ) -> None:
        if not trace_files and trace_dir is None:
            raise TraceError("name a folder: TraceAnalysis(trace_dir=...)")
        self.traces = _read(trace_files or [""], Path(trace_dir or "").expanduser())
        for note in self.traces.notes:
            warnings.warn(note, stacklevel=2)
        begins = (int(trace.events.ts.min()) for trace in self.traces.values() if len(trace.events))
        self.begin = min(begins, default=0)
        """When the first event of all ranks begins, in ns: times in data frames are counted from there."""
        for rank, trace in self.traces.items():
            self.traces[rank] = steps.without_last_step(trace, bool(include_last_profiler_step))

    def get_comm_comp_overlap(self, visualize: bool = True) -> "pandas.DataFrame":
        """Return how much of the communication is hidden under computation."""
        found = self._frame(breakdown.comm_comp, frames.OVERLAP)
        if visualize:
            show("bar", found, "Communication hidden under computation (%)", x="rank", y=["comp_comm_overlap_pctg"])
        return found

    def get_profiler_steps(self) -> list[int]:
        """Return the numbers of the profiler's steps, on any rank."""
        return sorted({step.number for trace in self.traces.values() for step in steps.traced_steps(trace)})

    def get_potential_stragglers(
        self,
        profiler_steps: list[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[..., list[Rank]] = late_starts,
    ) -> list[Rank]:
        """Return the ranks that begin their communication late; none if nothing can be compared between ranks."""
        known = self.get_profiler_steps()
        if profiler_steps is not None and not {*profiler_steps} & {*known}:
            raise TraceError(f"profiler_steps={profiler_steps}: the traces have the steps {known}")
        if visualize:
            found = compared_kernels(self.traces, profiler_steps)
            found["start (us)"] = (found["ts"] - self.begin) / 1000
            show("bar", found, "When communication begins (µs)", x="rank", y="start (us)", facet_col="step")
        return straggler_identification_impl(self.traces, profiler_steps, max(num_candidates, 1))

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> "tuple[pandas.DataFrame, pandas.DataFrame]":
        """Return how long each kind of kernel ran on all ranks together, and the longest kernels of each rank."""
        kinds = [kind for kind in breakdown.KINDS if include_memory_kernels or kind != "MEMORY"]
        rows = [row for trace in self.traces.values() for row in breakdown.kernel_types(trace, kinds)]
        types = data_frame(rows, ["kernel_type", "sum"]).groupby("kernel_type", as_index=False).sum()
        types = types.sort_values("sum", ascending=False, ignore_index=True)
        types["percentage"] = 100 * types["sum"] / types["sum"].sum()
        tables = [
            frames.time_frame(trace, trace.gpu[breakdown.kinds(trace) == number], num_kernels, duration_ratio).assign(
                kernel_type=kind, rank=rank
            )
            for number, kind in enumerate(kinds)
            for rank, trace in self.traces.items()
        ]
        kernels = frames.joined(tables).sort_values(["kernel_type", "name"], kind="stable", ignore_index=True)
        if visualize:
            show("pie", types, "Time by kind of kernel", image_renderer, names="kernel_type", values="sum")
            options = {"x": "rank", "y": "sum (us)", "color": "name", "facet_col": "kernel_type"}
            show(
                "bar", kernels.astype({"rank": str}), "The longest kernels of each kind (µs)", image_renderer, **options
            )
        return types, kernels

    def get_gpu_kernels_with_user_annotations(
        self, rank: int, expand_names: bool = True, shorten_names: bool = True
    ) -> "pandas.DataFrame | None":
        """Return what ran on a device, each with the innermost annotation around it.

        None is returned if the profiler recorded no annotations on the device.
        """
        trace = self._trace(rank)
        if annotations.ON_GPU not in trace.cats:
            return None
        found = frames.kernel_frame(trace, self.begin)
        if expand_names:
            names = [frames.short_name(name) if shorten_names else name for name in trace.names]
            for column, texts in (("name", names), ("cat", trace.cats), ("user_annotation", names)):
                found[f"s_{column}"] = [texts[number] if number >= 0 else "" for number in found[column]]
        return found

    def get_gpu_user_annotation_breakdown(
        self,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: list[str] | None = None,
        image_renderer: str | None = None,
    ) -> "pandas.DataFrame | None":
        """Return the time of each annotation on each rank; None if the profiler recorded no such annotations."""
        cat = annotations.ON_GPU if use_gpu_annotation else annotations.ON_CPU
        if all(cat not in trace.cats for trace in self.traces.values()):
            return None
        found = frames.joined(
            frames.time_frame(
                trace, trace.events[trace.of(cat)], num_kernels, duration_ratio, allowlist_patterns or ()
            ).assign(rank=rank)
            for rank, trace in self.traces.items()
        )
        if visualize:
            show("bar", found, "Time of annotations (µs)", image_renderer, x="name", y="sum (us)", facet_col="rank")
        return found

    def get_temporal_breakdown(self, visualize: bool = True) -> "pandas.DataFrame":
        """Return how long each device computes, does something else, and is idle."""
        found = self._frame(breakdown.temporal, frames.TEMPORAL)
        if visualize:
            shares = ["idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg"]
            show("bar", found, "Where the time of each device goes (%)", x="rank", y=shares)
        return found

    def get_frequent_cuda_kernel_sequences(
        self,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = False,
        compress_other_kernels: bool = True,
    ) -> "pandas.DataFrame":
        """Return which kernels an operator launches one after another, and write a trace in which they are marked.

        The trace is `overlaid_` and the name of the file. The most frequent sequences have the argument "Patterns".
        """
        if not operator_name or not Path(output_dir).is_dir():
            raise TraceError(f"name an operator, and a folder that is there: not {operator_name!r} and {output_dir!r}")
        trace = self._trace(rank)
        found = operator_kernels.frequent(trace, operator_name, min_pattern_len)
        rows = [("|".join(each.names), each.occurrences, each.device / 1000, each.cpu / 1000) for each in found]
        table = data_frame(rows, ["pattern", "count", "GPU kernel duration (us)", "CPU op duration (us)"])
        if found:
            marked = {
                index: {"Patterns": {"|".join(each.names): each.occurrences}}
                for each in found[:top_k]
                for index in operator_kernels.events_in(trace, each).tolist()
            }
            target = Path(output_dir) / f"overlaid_{trace.path.name}"
            rewrite(trace.path, target, marked=marked, only_marked=compress_other_kernels)
        if visualize:
            show("bar", table[:top_k], f"Rank {rank}: the most frequent sequences", y="count", hover_data=["pattern"])
        return table

    def get_aten_op_kernels_and_delay(
        self, ranks: list[Rank] | None = None, sort_by: list[str] | None = None
    ) -> "dict[Rank, pandas.DataFrame]":
        """Return the kernels that each ATen operator launches, and how late they are launched and begin; by rank."""
        found = {}
        for rank, trace in self._chosen(ranks).items():
            rows = data_frame(operator_kernels.kernels_of_operators(trace), operator_kernels.COLUMNS)
            by_name = rows.sort_values(["aten_op_name", "kernel_sequence"], ignore_index=True)
            # As the original sorts them: equal values come in an order that only pandas knows.
            found[rank] = by_name.sort_values(sort_by or ["occurrence_count"], ascending=False).round(3)
        return found

    def get_cuda_kernel_launch_stats(
        self,
        ranks: list[Rank] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> "dict[Rank, pandas.DataFrame]":
        """Return each launch, by rank: how long the call took, what it launched, and how long that waited."""
        tables = {rank: frames.launch_frame(each, include_memory_events) for rank, each in self._chosen(ranks).items()}
        for rank, table in tables.items() if visualize else ():
            frames.show_launches(table, f"Rank {rank}", runtime_cutoff, launch_delay_cutoff)
        return tables

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: list[Rank] | None = None,
        output_suffix: str = "_with_counters",
    ) -> None:
        """Write traces that show the lengths of the queues and the bandwidths of copies over time in a viewer.

        They are written beside the originals, with the suffix before ".json" in their name.
        """
        wanted = time_series or TimeSeriesTypes.QUEUE_LENGTH | TimeSeriesTypes.MEMCPY_BANDWIDTH
        for trace in self._chosen(ranks).values():
            added: list[dict[str, Any]] = []
            if TimeSeriesTypes.QUEUE_LENGTH in wanted:
                queue = frames.queue_frame(trace, self.begin)
                added += frames.counter_events(queue, "Queue Length", "queue_length", self.begin)
            if TimeSeriesTypes.MEMCPY_BANDWIDTH in wanted:
                speed = frames.bandwidth_frame(trace, self.begin)
                added += frames.counter_events(speed, "Memcpy BW", "memory_bw_gbps", self.begin)
            name = re.sub(r"(?=\.json(\.gz)?$)|$", output_suffix or "_with_counters", trace.path.name, count=1)
            rewrite(trace.path, trace.path.with_name(name), added)

    def get_queue_length_summary(self, ranks: list[Rank] | None = None) -> "pandas.DataFrame | None":
        """Return statistics over the lengths of the queue of each stream, one value for each change; None without."""
        return self.get_queue_length_summary_from_time_series(self.get_queue_length_time_series(ranks))

    def get_queue_length_summary_from_time_series(
        self, queue_length_dict: "dict[Rank, pandas.DataFrame]"
    ) -> "pandas.DataFrame | None":
        """Return the same, of what `get_queue_length_time_series` returned."""
        return frames.described_frames(queue_length_dict, "stream", "queue_length")

    def get_queue_length_time_series(self, ranks: list[Rank] | None = None) -> "dict[Rank, pandas.DataFrame]":
        """Return each change of the queue of each stream, by rank: how much is launched there and has not begun."""
        found = {rank: frames.queue_frame(trace, self.begin) for rank, trace in self._chosen(ranks).items()}
        return {rank: frame for rank, frame in found.items() if len(frame)}

    def get_time_spent_blocked_on_full_queue(
        self, queue_length_dict: "dict[Rank, pandas.DataFrame]", max_queue_length: int = time_series.FULL
    ) -> "pandas.DataFrame | None":
        """Return how long the queue of each stream was full, of what `get_queue_length_time_series` returned."""
        rows = []
        for rank, frame in queue_length_dict.items():
            ts = self._trace(rank).events.ts
            whole = int(ts.max() - ts.min()) / 1000
            for (_, stream), here in frame.groupby(["pid", "stream"]):
                columns = (np.rint(here["ts"].to_numpy() * 1000).astype(np.int64), here["queue_length"].to_numpy())
                time = time_series.time_at_least(*columns, max_queue_length).length / 1000
                if (here["queue_length"] >= max_queue_length).any():
                    rows.append((rank, stream, time, time / whole))
        times = ["duration_at_max_queue_length", "relative_duration_at_max_queue_length"]
        return data_frame(rows, ["rank", "stream", *times])

    def get_memory_bw_summary(self, ranks: list[Rank] | None = None) -> "pandas.DataFrame | None":
        """Return statistics over the bandwidth of each kind of copy while it runs, in GB/s; None without copies."""
        found = self.get_memory_bw_time_series(ranks)
        running = {rank: frame[frame["memory_bw_gbps"] > 0] for rank, frame in found.items()}
        return frames.described_frames(running, "name", "memory_bw_gbps")

    def get_memory_bw_time_series(self, ranks: list[Rank] | None = None) -> "dict[Rank, pandas.DataFrame]":
        """Return each change of the bandwidth of each kind of copy, by rank, in GB/s."""
        found = {rank: frames.bandwidth_frame(trace, self.begin) for rank, trace in self._chosen(ranks).items()}
        return {rank: frame for rank, frame in found.items() if len(frame)}

    def get_idle_time_breakdown(
        self,
        ranks: list[Rank] | None = None,
        streams: list[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
        consecutive_kernel_delay: int = breakdown.KERNEL_WAIT_NS // 1000,
    ) -> "tuple[pandas.DataFrame, pandas.DataFrame | None]":
        """Return why each stream was idle, and, if asked for, how long its gaps were."""
        delay = round(consecutive_kernel_delay * 1000)
        traces = self._chosen(ranks)
        found = data_frame(rows_of_all(traces, lambda trace: breakdown.idle(trace, delay, as_hta=True)), frames.IDLE)
        if streams:
            found = found[found["stream"].isin(streams)]
        if visualize and len(found):
            place = "rank " + found["rank"].astype(str) + ", " + found["stream"].astype(str)
            value = "idle_time_ratio" if visualize_pctg else "idle_time"
            wide = found.assign(place=place).pivot_table(index="place", columns="idle_category", values=value)
            show("bar", wide.reset_index(), "Why each stream is idle", x="place", y=list(wide.columns))
        if not show_idle_interval_stats:
            return found, None
        rows = [
            {"rank": rank, "idle_category": cause} | stream | data_frame({"": lengths / 1000}).describe()[""].to_dict()
            for rank, trace in traces.items()
            for stream, by_cause in breakdown.gaps(trace, delay, as_hta=True)
            for cause, lengths in by_cause.items()
            if len(lengths)
        ]
        statistics = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")
        gaps = data_frame(rows, ("idle_category", "rank", "stream", *statistics, "device")).astype({"count": int})
        return found, (gaps[gaps["stream"].isin(streams)] if streams else gaps).set_index("idle_category")

    def get_cupti_counter_data_with_operators(self, ranks: list[Rank] | None = None) -> "list[pandas.DataFrame]":
        """Return the kernels that CUPTI measured, with the operators that launched them and a column a counter."""
        found = [operator_kernels.counter_rows(trace, self.begin) for trace in self._chosen(ranks).values()]
        return [data_frame(rows) for rows in found if rows is not None]

    def get_operators(self) -> "pandas.DataFrame":
        """Return the operators by their self time."""
        return self._frame(breakdown.operators)

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
        return [finding.text for finding in findings(self.traces)]

    def get_critical_path(
        self, annotation: str | None = None, instance_id: int = 0
    ) -> "tuple[pandas.DataFrame, pandas.DataFrame]":
        """Return what the end of a step waited for, exact to the ns, and the step without each operator on the path.

        `critical_path_analysis` has the rules of HolisticTraceAnalysis, which are coarser.
        """
        paths = {
            rank: path.of_typical_step(trace)
            if annotation is None
            else path.critical_path(trace, path.annotated(trace, annotation, instance_id))
            for rank, trace in self.traces.items()
        }
        pieces = [{"rank": rank} | row for rank, each in paths.items() for row in path.path_rows(each)]
        operators = [{"rank": rank} | row for rank, each in paths.items() for row in path.operator_rows(each)]
        return data_frame(pieces), data_frame(operators)

    def critical_path_analysis(
        self,
        rank: Rank,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: list[str] | None = None,
    ) -> tuple[CPGraph, bool]:
        """Return a graph of dependencies with the longest path through it, and whether there is such a path.

        The rules are those of HolisticTraceAnalysis, and times are in µs. An event is named by its position in the
        file.
        """
        trace = self._trace(rank)
        window = window_of(trace, annotation, instance_id)
        graph = CPGraph(trace, number_of(rank), window, data_load_events)
        return graph, graph.critical_path()

    def overlay_critical_path_analysis(
        self,
        rank: Rank,
        critical_path_graph: CPGraph,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Write a trace in which a viewer shows a critical path, and return where it is."""
        folder = Path(output_dir).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"overlaid_critical_path_{self._trace(rank).path.name}"
        all_edges = show_all_edges and not only_show_critical_events
        overlay(critical_path_graph, target, only_show_critical_events, all_edges)
        return str(target)

    def _chosen(self, ranks: list[Rank] | None) -> dict[Rank, Trace]:
        """Return the traces of some ranks; by default that of rank 0, or else the first one."""
        default = 0 if 0 in self.traces else next(iter(self.traces))
        chosen = [ranks] if isinstance(ranks, int | str) else ranks
        return {rank: self._trace(rank) for rank in chosen or [default]}

    def _trace(self, rank: Rank) -> Trace:
        """Return the trace of a rank; where several files name the same one, its number stands for the first."""
        for known, trace in self.traces.items():
            if rank in (known, number_of(known)):
                return trace
        raise TraceError(f"there is no trace of rank {rank!r}, but of {', '.join(map(repr, self.traces))}")

    def _frame(self, analysis: Callable[[Trace], Any], columns: tuple[str, ...] | None = None) -> "pandas.DataFrame":
        return data_frame(rows_of_all(self.traces, analysis), columns)


def _read(files: dict[int, str] | list[str] | str, folder: Path) -> Traces:
    """Read traces, or those of some ranks, whose paths are relative to a folder."""
    if not isinstance(files, dict):
        names = [files] if isinstance(files, str) else files
        return load([folder / Path(name).expanduser() for name in names])
    traces = Traces([])
    for rank, name in files.items():
        found = load([folder / Path(name).expanduser()])
        if len(found) > 1:
            raise TraceError(f"{name} has {len(found)} traces; name one for each rank")
        [traces[rank]] = found.values()
        traces.notes += found.notes
    return traces
