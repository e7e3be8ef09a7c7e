"""Writes answers_of_trace_analysis.json: what HolisticTraceAnalysis answers about made traces.

It is run by hand, in an environment with traceinsight 0.6.1: python tests/ask_hta.py
"""

import json
import tempfile
from pathlib import Path
from typing import Any

SEEDS = range(3)
ANSWERS = Path(__file__).parent / "traces/answers_of_trace_analysis.json"


def answers(analyses: type[Any], traces: dict[int, str], folder: Path) -> dict[str, Any]:
    """Return what the methods of a `TraceAnalysis` answer, for JSON."""
    analysis = analyses(trace_files=traces, trace_dir=str(folder))
    ranks = list(traces)
    queues = analysis.get_queue_length_time_series(ranks)
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    idle, _ = analysis.get_idle_time_breakdown(ranks, visualize=False)
    found = {
        "steps": [int(step) for step in analysis.get_profiler_steps()],
        "stragglers": [int(rank) for rank in analysis.get_potential_stragglers(num_candidates=1)],
        "temporal": analysis.get_temporal_breakdown(visualize=False),
        "overlap": analysis.get_comm_comp_overlap(visualize=False),
        "idle": idle[idle["idle_time"] > 0],
        "kinds": kinds[kinds["sum"] > 0],
        "kernels": kernels,
        "launches": analysis.get_cuda_kernel_launch_stats(ranks, visualize=False)[1],
        "queue": queues[0],
        "queue_summary": analysis.get_queue_length_summary(ranks).reset_index(),
        "full": analysis.get_time_spent_blocked_on_full_queue({0: queues[0][queues[0]["stream"] == 7]}, 2),
        "bandwidth": analysis.get_memory_bw_time_series(ranks)[1],
        "bandwidth_summary": analysis.get_memory_bw_summary(ranks).reset_index(),
        "annotations": analysis.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False),
        "operators": analysis.get_aten_op_kernels_and_delay()[0],
        "sequences": analysis.get_frequent_cuda_kernel_sequences("aten::linear", str(folder), 1),
    }
    assert analysis.get_gpu_user_annotation_breakdown(visualize=False) is None
    return {name: _rows(each) if hasattr(each, "columns") else each for name, each in found.items()}


def _rows(frame: Any) -> list[dict[str, Any]]:
    columns = [" ".join(filter(None, each)) if isinstance(each, tuple) else each for each in frame.columns]
    rows = json.loads(frame.set_axis(columns, axis=1).to_json(orient="records", double_precision=9))
    return sorted(rows, key=json.dumps)


if __name__ == "__main__":
    from hta.trace_analysis import TraceAnalysis
    from made_traces import a_training, write

    found = {}
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as name:
            for rank in range(2):
                write(Path(name) / f"{rank}.json", a_training(seed, rank))
            found[seed] = answers(TraceAnalysis, {0: "0.json", 1: "1.json"}, Path(name))
    ANSWERS.write_text(json.dumps(found, separators=(",", ":")) + "\n")
