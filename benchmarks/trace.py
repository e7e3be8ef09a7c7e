"""Loading traces and the five analyses, ours beside HolisticTraceAnalysis (on PyPI: traceinsight).

    pip install traceinsight    # here, or elsewhere: --python names the other environment's interpreter
    python benchmarks/trace.py TRACE.json.gz ...
    python benchmarks/trace.py --grow

Each side loads a trace and does the five analyses in a process of its own, in turn; "whole" is the time of that process
from its start to its end, with all that it imports. The floor is what nobody who reads JSON can go below: gunzip, and
decoding the events into typed objects by msgspec. Without a trace, one is made up as a training run with two streams of
a GPU would leave it: it is more regular than real ones. With `--grow`, eight made-up ranks of a growing size, ours
alone.
"""

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from workshop.errors import WorkshopError, plain_errors

RANKS = 8

OURS = """
from workshop.profiles.traces import breakdown, read
begin = time.perf_counter()
trace = read(Path(sys.argv[1]))
loaded = time.perf_counter()
for analysis in (breakdown.temporal, breakdown.idle, breakdown.comm_comp, breakdown.launches, breakdown.kernel_types,
                 breakdown.kernels):
    analysis(trace)
"""
THEIRS = """
import logging, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
begin = time.perf_counter()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
loaded = time.perf_counter()
analysis.get_temporal_breakdown(visualize=False)
analysis.get_idle_time_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
analysis.get_cuda_kernel_launch_stats(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
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
import json, resource, sys, time
from pathlib import Path
{}
seconds = time.perf_counter() - begin
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
children_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps(dict(seconds=seconds, peak_mb=max(peak_mb, children_mb))))
"""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Load traces and analyse them.")
    parser.add_argument("traces", type=Path, nargs="*", help="real ones; without, one is made up")
    parser.add_argument("--megabytes", type=float, default=54.0, help="of JSON made up; default 54")
    parser.add_argument("--rounds", type=int, default=5, help="of each; default 5")
    parser.add_argument("--python", default=sys.executable, help="of the environment that has traceinsight")
    parser.add_argument("--grow", action="store_true", help="eight ranks of growing size, ours alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.grow:
            grow(Path(folder))
        else:
            for path in arguments.traces or [made_up(Path(folder), arguments.megabytes)]:
                beside(path, arguments.rounds, arguments.python)
    from machine import machine  # it loads torch, whose memory would count for all sides

    print(f"\n{machine()}")


def made_up(folder: Path, megabytes: float) -> Path:
    """A trace that no GPU has left."""
    path = folder / "rank0.json.gz"
    write(path, megabytes * 1e6)
    return path


def beside(path: Path, rounds: int, python: str) -> None:
    """Ours, theirs, and the floor, in turn."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        size = sum(map(len, iter(lambda: file.read(1 << 20), b"")))
    print(f"\n{path.name}: {size / 1e6:.1f} MB of JSON")
    sides = {"floor": (sys.executable, FLOOR), "ours": (sys.executable, OURS), "traceinsight": (python, THEIRS)}
    found = [{side: measured(*how, path) for side, how in sides.items()} for _ in range(rounds)]
    print(f"{'':14}{'seconds':>9}{'whole':>9}{'MB':>7}   {'seconds / ours':24}whole / ours (min to max)")
    for side in sides:
        seconds, whole, peak = (median(each[side][what] for each in found) for what in ("seconds", "whole", "peak_mb"))
        ratios = [ratio([each[side][what] / each["ours"][what] for each in found]) for what in ("seconds", "whole")]
        print(f"{side:14}{seconds:9.2f}{whole:9.2f}{peak:7.0f}   {ratios[0]:24}{ratios[1]}", flush=True)


def ratio(found: list[float]) -> str:
    """The median, and how far it scatters."""
    return f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def grow(folder: Path) -> None:
    """Eight ranks, read by `workshop trace`: seconds for each GB of JSON."""
    print(f"\n{'GB of JSON':>10}{'seconds':>9}{'s / GB':>8}")
    for megabytes in (32, 128, 512, 1100):
        here = folder / str(megabytes)
        here.mkdir()
        size = sum(write(here / f"rank{rank}.json.gz", megabytes * 1e6 / RANKS)[1] for rank in range(RANKS))
        begin = time.perf_counter()
        command = [sys.executable, "-m", "workshop", "trace", str(here), "--only", "temporal"]
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise WorkshopError(done.stderr.strip())
        print(f"{size / 1e9:10.2f}{seconds:9.2f}{seconds / size * 1e9:8.2f}", flush=True)
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\npeak memory of the largest process: {peak_mb:.0f} MB")


def measured(python: str, code: str, path: Path) -> dict[str, float]:
    """What a process of its own took: "seconds" without its imports, "whole" with them."""
    begin = time.perf_counter()
    done = subprocess.run([python, "-c", MEASURED.format(code), str(path)], capture_output=True, text=True)
    if done.returncode:
        raise WorkshopError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return json.loads(done.stdout.splitlines()[-1]) | {"whole": time.perf_counter() - begin}


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
