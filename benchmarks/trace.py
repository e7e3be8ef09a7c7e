"""The analyses of traces, each beside HolisticTraceAnalysis (on PyPI: traceinsight), and the whole command.

    pip install traceinsight    # here, or elsewhere: --python names the other environment's interpreter
    python benchmarks/trace.py TRACE.json.gz ...
    python benchmarks/trace.py --grow

Both sides run the same lines but for the import: a process of its own loads a trace and does one analysis, in turn.
The time is that of loading and analysing; what both import is imported before. Then `workshop trace`, which does all
analyses, is measured from the start of its process to its end, beside a process that does the same analyses with
traceinsight. The floor is what nobody who reads JSON can go below: gunzip, and decoding the events into typed objects
by msgspec. Without a trace, one is made up as a training run with two streams of a GPU would leave it: it is more
regular than real ones. With `--grow`, eight made-up ranks of a growing size, ours alone.
"""

import argparse
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from workshop.errors import WorkshopError, plain_errors

RANKS = 8

ANALYSES = {
    "temporal breakdown": "analysis.get_temporal_breakdown(visualize=False)",
    "idle time": "analysis.get_idle_time_breakdown(visualize=False)",
    "overlap": "analysis.get_comm_comp_overlap(visualize=False)",
    "kernels": "analysis.get_gpu_kernel_breakdown(visualize=False)",
    "kernel launches": "analysis.get_cuda_kernel_launch_stats(visualize=False)",
    "annotations on the GPU": "analysis.get_gpu_user_annotation_breakdown(visualize=False)",
    "annotations on the CPU": "analysis.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False)",
    "kernels by annotation": "analysis.get_gpu_kernels_with_user_annotations(0)",
    "kernels of operators": "analysis.get_aten_op_kernels_and_delay()",
    "frequent sequences": "analysis.get_frequent_cuda_kernel_sequences('aten::', folder, min_pattern_len=3)",
    "queue length": "analysis.get_queue_length_summary()",
    "full queue": "analysis.get_time_spent_blocked_on_full_queue(analysis.get_queue_length_time_series())",
    "bandwidth": "analysis.get_memory_bw_summary()",
    "counters written": "analysis.generate_trace_with_counters()",
    "stragglers": "analysis.get_potential_stragglers()",
    "critical path": "analysis.critical_path_analysis(0, 'ProfilerStep', 0)",
}
"""What is compared, as both sides call it."""

OURS = "from workshop.traces import TraceAnalysis"
THEIRS = """
import logging, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
"""
ANALYSIS = """
import pandas
{importing}
begin = time.perf_counter()
analysis = TraceAnalysis(trace_files={{0: sys.argv[1]}}, trace_dir="")
folder = sys.argv[2]
raised = 0
{calls}
"""
CALL = """
try:
    {}
except Exception:
    raised += 1
"""

FLOOR = """
import gzip
import msgspec
class Args(msgspec.Struct, gc=False):
    stream: int = -1
    correlation: int = -1
class Event(msgspec.Struct, gc=False):
    name: str
    ts: float = 0
    dur: float = 0
    cat: str = ""
    args: Args | None = None
class Document(msgspec.Struct):
    traceEvents: list[Event]
begin = time.perf_counter()
with gzip.open(sys.argv[1]) as file:
    data = file.read()
loaded = time.perf_counter()
document = msgspec.json.decode(data, type=Document)
"""
MEASURED = """
import json, sys, time
from pathlib import Path
raised = 0
{}
print(json.dumps((time.perf_counter() - begin, raised)))
"""


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    """Without its imports, unless it is a whole process."""
    peak_mb: float
    raised: bool = False
    """Whether an analysis stopped with an error."""


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description="Load traces and analyse them.")
    parser.add_argument("traces", type=Path, nargs="*", help="real ones; without, one is made up")
    parser.add_argument("--megabytes", type=float, default=54.0, help="of JSON made up; default 54")
    parser.add_argument("--rounds", type=int, default=3, help="of each; default 3")
    parser.add_argument("--python", default=sys.executable, help="of the environment that has traceinsight")
    parser.add_argument("--grow", action="store_true", help="eight ranks of growing size, ours alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.grow:
            grow(Path(folder))
        else:
            for path in arguments.traces or [made_up(Path(folder), arguments.megabytes)]:
                # An analysis writes beside the trace.
                copied = path if path.parent == Path(folder) else Path(shutil.copy(path, folder))
                beside(copied, arguments.rounds, arguments.python)
    from machine import machine  # it loads torch, whose memory would count for all sides

    print(f"\n{machine()}")


def made_up(folder: Path, megabytes: float) -> Path:
    """A trace that no GPU has left."""
    path = folder / "rank0.json.gz"
    write(path, megabytes * 1e6)
    return path


def beside(path: Path, rounds: int, python: str) -> None:
    """Print what each analysis takes on both sides, and what the command takes that does all of them."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        size = sum(map(len, iter(lambda: file.read(1 << 20), b"")))
    floor = measured(sys.executable, FLOOR, path)
    print(f"\n{path.name}: {size / 1e6:.1f} MB of JSON; the floor is {floor.seconds:.2f} s, {floor.peak_mb:.0f} MB")
    print(f"{'':24}{'ours':>8}{'theirs':>9}  {'times as fast (min to max)':30}{'ours':>8}{'theirs':>9}")
    for name, call in ANALYSES.items():
        ours, theirs = analysis(OURS, [call]), analysis(THEIRS, [call])
        row(name, [(measured(sys.executable, ours, path), measured(python, theirs, path)) for _ in range(rounds)])
    command = [sys.executable, "-m", "workshop", "trace", str(path)]
    all_of_theirs = [python, "-c", MEASURED.format(analysis(THEIRS, [*ANALYSES.values()])), str(path), str(path.parent)]
    row("workshop trace", [(whole(command)[0], whole(all_of_theirs)[0]) for _ in range(rounds)])


def analysis(importing: str, calls: list[str]) -> str:
    """Return the lines that one side runs."""
    return ANALYSIS.format(importing=importing, calls="".join(CALL.format(call) for call in calls))


def row(name: str, pairs: list[tuple[Cost, Cost]]) -> None:
    """Print a row: the medians, and how the ratios scatter."""
    seconds = [median(side.seconds for side in sides) for sides in zip(*pairs, strict=True)]
    peaks = [median(side.peak_mb for side in sides) for sides in zip(*pairs, strict=True)]
    ratios = [theirs.seconds / ours.seconds for ours, theirs in pairs]
    ratio = f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
    stops = "".join(f"  {who} stops" for who, side in zip(("ours", "theirs"), pairs[0], strict=True) if side.raised)
    print(f"{name:24}{seconds[0]:6.2f} s{seconds[1]:7.2f} s  {ratio:30}{peaks[0]:5.0f} MB{peaks[1]:6.0f} MB{stops}")


def measured(python: str, code: str, path: Path) -> Cost:
    """Return what a process of its own took without its imports."""
    cost, output = whole([python, "-c", MEASURED.format(code), str(path), str(path.parent)])
    seconds, raised = json.loads(output.splitlines()[-1])
    return Cost(seconds, cost.peak_mb, raised > 0)


def whole(command: list[str]) -> tuple[Cost, str]:
    """Return what a process took from its start to its end, and what it printed."""
    with tempfile.TemporaryFile("w+") as output:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)  # it alone tells the memory of one process
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read()
    if process.returncode:
        raise WorkshopError((said.strip().splitlines() or ["failed"])[-1])
    return Cost(seconds, usage.ru_maxrss / 1024), said


def grow(folder: Path) -> None:
    """Eight ranks, read by `workshop trace`: seconds for each GB of JSON."""
    print(f"\n{'GB of JSON':>10}{'seconds':>9}{'s / GB':>8}")
    for megabytes in (32, 128, 512, 1100):
        here = folder / str(megabytes)
        here.mkdir()
        size = sum(write(here / f"rank{rank}.json.gz", megabytes * 1e6 / RANKS)[1] for rank in range(RANKS))
        begin = time.perf_counter()
        command = [sys.executable, "-m", "workshop", "trace", str(here), "--tables", "temporal"]
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise WorkshopError(done.stderr.strip())
        print(f"{size / 1e9:10.2f}{seconds:9.2f}{seconds / size * 1e9:8.2f}", flush=True)
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\npeak memory of the largest process: {peak_mb:.0f} MB")


def write(path: Path, least_bytes: float) -> tuple[int, int]:
    """A trace of as many steps as it takes, and how many events and bytes it has."""
    rank = int(path.name.removeprefix("rank").partition(".")[0])
    about = {"backend": "nccl", "rank": rank, "world_size": RANKS}
    head = f'{{"schemaVersion": 1, "distributedInfo": {json.dumps(about)}, "traceEvents": [\n'
    count, size = 0, 0
    with gzip.open(path, "wt", compresslevel=1) as file:
        size += file.write(head)
        for step in steps():
            if size >= least_bytes:
                break
            count += len(step)
            size += file.write((",\n" if size > len(head) else "") + ",\n".join(step))
        size += file.write('\n], "traceName": "made up"}\n')
    return count, size


def steps() -> Iterator[list[str]]:
    """The events of one step after the other."""
    now, correlation = 1_000_000.0, 1
    number = 0
    while True:
        number += 1
        begin, free, events = now, now, []
        for layer in range(120):
            nested = [("aten::conv2d", 30.1), ("aten::convolution", 26.4), ("aten::cudnn_convolution", 20.3)]
            for depth, (name, dur) in enumerate(nested):
                events.append(op(f"{name}_{layer % 7}", now + depth, dur, correlation))
            events.append(launch(now + 5, correlation))
            free = max(free, now + 12) + 1.5
            events.append(kernel(f"void cutlass::Kernel<sgemm_{layer % 11}>(Params)", free, 24.25, 7, correlation))
            free += 24.25
            correlation += 1
            if layer % 10 == 0:
                events.append(launch(now + 25, correlation))
                events.append(kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", free, 80.5, 20, correlation))
                correlation += 1
            now += 33.7
        now += 400.25
        events.append(
            f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", "pid": 7, "tid": 7, '
            f'"ts": {begin:.3f}, "dur": {now - begin:.3f}, "args": {{"External id": {correlation}, "Ev Idx": 1}}}}'
        )
        yield events


def op(name: str, ts: float, dur: float, number: int) -> str:
    """An operator on the CPU."""
    return (
        f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 7, "tid": 7, "ts": {ts:.3f}, "dur": {dur:.3f}, '
        f'"args": {{"External id": {number}, "Record function id": 0, "Ev Idx": {number}, "Input Dims": '
        '[[8, 64, 56, 56], [64, 64, 3, 3], []], "Input type": ["float", "float", ""]}}'
    )


def launch(ts: float, correlation: int) -> str:
    """A call that launches a kernel."""
    return (
        f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": {ts:.3f}, '
        f'"dur": 6.125, "args": {{"External id": {correlation}, "cbid": 211, "correlation": {correlation}}}}}'
    )


def kernel(name: str, ts: float, dur: float, stream: int, correlation: int) -> str:
    """What ran on the device."""
    return (
        f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": {stream}, "ts": {ts:.3f}, "dur": {dur:.3f}, '
        f'"args": {{"External id": {correlation}, "queued": 0, "device": 0, "context": 1, "stream": {stream}, '
        f'"correlation": {correlation}, "registers per thread": 128, "shared memory": 49152, "blocks per SM": 1.5, '
        '"warps per SM": 12.0, "grid": [98, 2, 1], "block": [256, 1, 1], "est. achieved occupancy %": 19}}'
    )


if __name__ == "__main__":
    with plain_errors():
        main()
