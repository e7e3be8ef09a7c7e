"""The rows of a py-spy report, ours beside itwinai's, of one large recording.

    pip install --no-deps itwinai && pip install pydantic
    python benchmarks/py_spy_report.py

The recording: the slow script with two workers under the real py-spy, its stacks repeated with other process numbers
and other innermost lines until the file is as large as asked for, as of a long run with many processes. Each side reads
and aggregates it in a process of its own, in turn; the rows must be the same.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from workshop.errors import WorkshopError, plain_errors
from workshop.experiment import ExperimentConfig
from workshop.parts import SOLUTIONS
from workshop.profiles import py_spy_report, stacks
from workshop.recording import py_spy

LIBRARY = "part3.py"
MODULE = "itwinai/torch/profiling/py_spy_aggregation.py"


def main() -> None:
    """Measure both and print a table."""
    parser = argparse.ArgumentParser(description="Read a large recording.")
    parser.add_argument("--megabytes", type=float, default=50.0, help="at least so large; default 50")
    parser.add_argument("--rounds", type=int, default=5, help="of each; default 5")
    parser.add_argument("--recording", type=Path, help="one to repeat, instead of recording the slow script")
    parser.add_argument("--run", choices=READERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(arguments.run, arguments.recording)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = folder / "large.raw"
        repeat(arguments.recording or record(folder), large, arguments.megabytes * 1e6)
        rounds = [{side: measured(side, large) for side in READERS} for _ in range(arguments.rounds)]
    ours, theirs = ([each[side] for each in rounds] for side in ("ours", "itwinai"))
    if any(each["rows"] != theirs[0]["rows"] for each in ours):
        raise WorkshopError("the rows differ")
    from machine import machine  # it loads torch, whose memory would count for both sides

    print(machine())
    size, count, rows = ours[0]["bytes"] / 1e6, ours[0]["stacks"], len(ours[0]["rows"])
    print(f"{size:.1f} MB, {count} stacks, {rows} equal rows\n")
    print(f"{'':10}{'seconds':>9}{'MB':>7}   ratio of seconds (min to max)")
    ratios = [their["seconds"] / our["seconds"] for our, their in zip(ours, theirs, strict=True)]
    for side, found in (("ours", ours), ("itwinai", theirs)):
        seconds, memory = (median(each[what] for each in found) for what in ("seconds", "peak_mb"))
        ratio = f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})" if found is theirs else "1"
        print(f"{side:10}{seconds:9.2f}{memory:7.0f}   {ratio}")


def record(folder: Path) -> Path:
    """The slow script with workers, seen from outside. It draws the stand-in if need be."""
    script = folder / LIBRARY
    script.write_text(SOLUTIONS.joinpath(LIBRARY).read_text().replace("num_workers=8", "num_workers=2"))
    config = ExperimentConfig(batch_size=8, max_items=64, max_epochs=2, image_size=64, dataset="stand-in")
    (folder / "config.py").write_text(config.to_source())
    command = [sys.executable, str(script), str(folder / "config.py"), "--experiments", str(folder / "experiments")]
    return py_spy.record(command, str(folder / "small.raw")).path


def repeat(small: Path, large: Path, least_bytes: float) -> None:
    """Write the stacks again and again, each time as of other processes and with other innermost lines."""
    recorded = stacks.read(small).stacks
    with large.open("w") as file:
        times = 0
        while file.tell() < least_bytes:
            times += 1
            for stack in recorded:
                processes = tuple(process._replace(pid=process.pid + times) for process in stack.processes)
                leaf = [frame._replace(line=(frame.line or 0) + times % 50) for frame in stack.frames[-1:]]
                frames = (*stack.frames[:-1], *leaf)
                file.write(f"{stacks.Stack(frames, stack.samples, processes)}\n")


def measured(side: str, path: Path) -> dict[str, object]:
    """What a process of its own found, and what it took."""
    command = [sys.executable, __file__, "--run", side, "--recording", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise WorkshopError((done.stderr.strip().splitlines() or [f"{side} failed"])[-1])
    return json.loads(done.stdout)


def run(side: str, path: Path) -> dict[str, object]:
    """Read and aggregate; imports are not timed."""
    rows, count, seconds = READERS[side](path)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"rows": sorted(rows), "stacks": count, "bytes": path.stat().st_size}
    return found | {"seconds": seconds, "peak_mb": peak_mb}


def ours(path: Path) -> tuple[list[list[object]], int, float]:
    """By this project."""
    begin = time.perf_counter()
    recording = stacks.read(path)
    table = py_spy_report.leaves(recording, LIBRARY)
    seconds = time.perf_counter() - begin
    return [list(map(str, row.as_dict().values())) for row in table.rows], len(recording.stacks), seconds


def itwinai(path: Path) -> tuple[list[list[object]], int, float]:
    """By the functions that its command calls, in their order."""
    module = load_itwinai()
    begin = time.perf_counter()
    traces = module.read_stack_traces(path=path)
    module.add_library_information(stack_traces=traces, library_name=LIBRARY)
    frames = module.get_aggregated_paths(stack_frames=[trace[-1] for trace in traces])
    frames.sort(reverse=True)
    seconds = time.perf_counter() - begin
    total = sum(frame.num_samples for frame in frames)
    rows = [
        [*frame.get_aggregation_key(), f"{100 * frame.num_samples / total:.2f}% ({frame.num_samples})"]
        for frame in frames
    ]
    return (
        [[*map(str, row), str(frame.num_samples)] for row, frame in zip(rows, frames, strict=True)],
        len(traces),
        seconds,
    )


def load_itwinai():
    """Its module alone: the package would import what it does not need here."""
    try:
        path = importlib.metadata.distribution("itwinai").locate_file(MODULE)
    except importlib.metadata.PackageNotFoundError:
        raise WorkshopError("pip install --no-deps itwinai && pip install pydantic") from None
    spec = importlib.util.spec_from_file_location("py_spy_aggregation", str(path))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pydantic looks its models' types up there
    spec.loader.exec_module(module)
    return module


READERS = {"ours": ours, "itwinai": itwinai}

if __name__ == "__main__":
    with plain_errors():
        main()
