"""The first line that each tool names in a script with a memory fault: `workshop memory` beside three others.

    pip install memray scalene
    python benchmarks/memory_peers.py [--corpus benchmarks/memory/unseen] [NAME ...]

The scripts are those of `benchmarks/memory.py`. None of the peers names a cause or a holder, so the comparison is about
the line alone. Each of them may show two lines, and is right if one of the two is marked: for memray, the line of the
script with the most bytes at the peak, and that with the most bytes that are never freed; for Scalene, that with the
highest peak, and that with the most growth; for torch.profiler, those of the operators that keep, and that allocate,
the most. `workshop memory` has only what it names first.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from corpus import described
from machine import machine
from memory import SCRIPTS, is_right, marked_lines, measured, named_first

SECONDS = 15.0
ENDS_WITHIN_S = 60.0

TORCH = """
import json, os, runpy, sys
from collections import Counter
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

script, output, steps = sys.argv[1], sys.argv[2], 0
activities = [torch.profiler.ProfilerActivity.CPU]
verbose = torch._C._profiler._ExperimentalConfig(verbose=True)  # else the stacks are empty
profiler = torch.profiler.profile(
    activities=activities, profile_memory=True, with_stack=True, experimental_config=verbose
)


def count(*_):
    global steps
    steps += 1
    if steps == 5:
        profiler.start()
    if steps == 12:
        profiler.stop()
        kept, made = Counter(), Counter()
        for event in profiler.events():
            own = [each for each in event.stack if os.path.basename(each.split("(")[0]) == os.path.basename(script)]
            if own and event.name.startswith("aten::"):
                line = own[0].split("(")[1].split(")")[0]
                kept[line] += event.self_cpu_memory_usage
                made[line] += max(event.self_cpu_memory_usage, 0)
        largest = [*kept.most_common(1), *made.most_common(1)]
        json.dump([int(line) for line, size in largest if size > 0], open(output, "w"))
        raise SystemExit


register_optimizer_step_post_hook(count)
sys.argv = [script]
runpy.run_path(script, run_name="__main__")
"""

Lines = set[int]


def main() -> None:
    """Try each tool with each script, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", metavar="NAME", help="some of the scripts")
    parser.add_argument("--corpus", type=Path, default=SCRIPTS, help="the folder (default: %(default)s)")
    args = parser.parse_args()
    corpus = args.corpus.absolute()
    names = args.only or sorted(described(corpus))
    columns = ("workshop memory", *TOOLS)
    print(f"{machine()}\n\n| script | marked | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    right = Counter[str]()
    for name in names:
        script = corpus / f"{name}.py"
        marked = marked_lines(script)
        first = named_first(measured(script))
        named = {"workshop memory": marked if is_right(first, script) else {first["line"]} - {None}}
        named |= {tool: run(script) for tool, run in TOOLS.items()}
        right.update(tool for tool, lines in named.items() if lines & marked)
        cells = (_text(lines, marked) for lines in named.values())
        print(f"| {name} | {_text(marked, set())} | {' | '.join(cells)} |", flush=True)
    print(f"| right of {len(names)} | | {' | '.join(str(right[tool]) for tool in columns)} |")


def memray(script: Path) -> Lines:
    """Of `memray run`, for the first process."""
    from memray import FileReader

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "memray.bin"
        _watch([sys.executable, "-m", "memray", "run", "--output", str(output), str(script)], folder, SECONDS)
        if not output.exists():
            return set()
        with FileReader(output) as reader:
            at_peak = _of_script(reader.get_high_watermark_allocation_records(merge_threads=True), script)
        with FileReader(output) as reader:
            left = _of_script(reader.get_leaked_allocation_records(merge_threads=True), script)
        return _largest(at_peak) | _largest(left)


def scalene(script: Path) -> Lines:
    """Of `scalene run --memory`."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "profile.json"
        command = [sys.executable, "-m", "scalene", "run", "--memory", "--outfile", str(output), str(script)]
        _watch(command, folder, SECONDS)
        if not output.exists() or not output.stat().st_size:  # it had not ended in time
            return set()
        peaks, growth = Counter[int](), Counter[int]()
        for path, found in json.loads(output.read_text()).get("files", {}).items():
            for each in found["lines"] if path.endswith(script.name) else []:
                peaks[each["lineno"]] = each["n_peak_mb"]
                growth[each["lineno"]] = each["n_growth_mb"]
        return _largest(peaks) | _largest(growth)


def torch_profiler(script: Path) -> Lines:
    """Of torch.profiler with memory and stacks, for seven steps."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "lines.json"
        _watch([sys.executable, "-c", TORCH, str(script), str(output)], folder, SECONDS)
        return set(json.loads(output.read_text())) if output.exists() and output.stat().st_size else set()


TOOLS: dict[str, Callable[[Path], Lines]] = {"memray": memray, "Scalene": scalene, "torch.profiler": torch_profiler}


def _of_script(records: Iterable[object], script: Path) -> Counter[int]:
    """Return the bytes of each line of the script; what a library allocates is counted for the line that calls it."""
    lines = Counter[int]()
    for each in records:
        own = [line for _, path, line in each.stack_trace() if path == str(script)]  # type: ignore[attr-defined]
        lines.update({own[0]: each.size} if own else {})  # type: ignore[attr-defined]
    return lines


def _largest(lines: Counter[int]) -> Lines:
    return {line for line, size in lines.most_common(1) if size > 0}


def _text(lines: Lines, marked: Lines) -> str:
    return ", ".join(f"**{line}**" if line in marked else str(line) for line in sorted(lines)) or "none"


def _watch(command: list[str], folder: str, seconds: float) -> None:
    """Let a command run for some seconds, then end it as Ctrl-C does, and get rid of what is left."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        for end in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, end)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_WITHIN_S)
            time.sleep(0.5)


if __name__ == "__main__":
    main()
