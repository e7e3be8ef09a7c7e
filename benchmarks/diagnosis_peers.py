"""What each tool names first in a slow script: `workshop measure` beside py-spy, Scalene, pyinstrument and TraceML.

    pip install scalene pyinstrument traceml-ai
    python benchmarks/diagnosis.py --json diagnosis.json
    python benchmarks/diagnosis_peers.py diagnosis.json

The scripts are those of `benchmarks/diagnosis.py`, each with one planted fault in a line that is known. Right is the
tool whose hottest line of the script is the planted one. What a tool counts for a library is given to the line of the
script that called it, wherever its data allow that; imports do not count. Each tool watches a script for as long as
the others do, and is then told to end, as a person would.

TraceML names no line but a verdict, such as INPUT-BOUND. It is right if it includes the planted cause, by `INCLUDES`.
So there are two counts: of the lines alone, and of the line or the cause, where `workshop measure` may name either,
too. The other tools name no cause.
"""

import argparse
import ast
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from corpus import Planted, planted
from machine import machine

from workshop.profiles import stacks

Lines = Counter[int]
"""The weight of each line of the script."""

Named = int | str | None
"""A line of the script, or a verdict of TraceML."""

ENDS_WITHIN_S = 30.0
START_UP_S = 5.0
"""The time in which a script has begun to train."""

TRACEML_S = 90.0
"""What `traceml run` may take at most to start its processes, and to write its summary."""

OF_LOADING = {"slow-item", "single-items", "slow-collate", "few-workers"}
OF_LOADING |= {"worker-restarts", "worker-contention", "large-batches"}
OF_OWN_CODE = {"own-work", "same-again", "periodic-work", "growing-steps", "tiny-operators", "unused-graph"}
OF_COMPUTING = {
    *("tiny-operators", "growing-steps", "float64", "one-thread", "anomaly-mode", "dense-embedding", "fused-optimizer"),
    *("unused-graph", "unused-gradients", "graph-twice", "own-work", "same-again", "padded-batches", "ignored-targets"),
    *("repeated-call", "garbage-collector", "merged-groups", "attention-by-hand", "recompilations"),
}
INCLUDES = {"INPUT-BOUND": OF_LOADING, "RESIDUAL-HEAVY": OF_OWN_CODE, "COMPUTE-BOUND": OF_COMPUTING}
"""The planted causes that a verdict of TraceML counts as right for.

The verdicts are those of time: waiting for batches; work in a step, but not in the model, the backward pass or the
optimizer; and these three. What may lie inside the model or outside of it, such as own work, is in both. That is
generous: a script without a fault is COMPUTE-BOUND, too. TraceML's verdicts of memory are for GPUs alone.
"""

IMPORTS = (ast.Import, ast.ImportFrom)
BLOCKS = (ast.For, ast.While, ast.FunctionDef)

ENDS = """import signal, sys
signal.signal(signal.SIGALRM, lambda *_: sys.exit())
signal.setitimer(signal.ITIMER_REAL, {seconds})
"""
"""Has a script end by itself."""


def main() -> None:
    """Try each tool with each script, and print a table."""
    parser = argparse.ArgumentParser(description="Which line does each tool name first?")
    parser.add_argument("diagnosis", type=Path, help="what benchmarks/diagnosis.py has found")
    parser.add_argument("--only", nargs="*", help="some of the scripts, by their names", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement (default: %(default)s)")
    parser.add_argument("--corpus", type=Path, help="a folder with a planted.toml (default: slow/ and part 11)")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background, and then by the tools, too

    found = {each["name"]: each for each in json.loads(args.diagnosis.read_text())}
    tried = [each for each in planted(args.corpus) if each.name in found and (not args.only or each.name in args.only)]
    columns = ("workshop measure", *TOOLS)
    print(f"{machine()}\n\n| script | planted line | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    right, with_cause = collections.Counter[str](), collections.Counter[str]()
    for each in tried:
        lines, findings = each.lines, found[each.name]["found"]
        first: dict[str, Named] = {"workshop measure": findings[0]["line"] if findings else None}
        first |= {tool: run(each.script, args.seconds) for tool, run in TOOLS.items()}
        right.update(tool for tool, named in first.items() if named in lines)
        with_cause.update(tool for tool, named in first.items() if is_right(named, each) and tool != columns[0])
        with_cause[columns[0]] += found[each.name]["right_line"] or found[each.name]["right_cause"]
        cells = (f"**{named}**" if is_right(named, each) else str(named or "none") for named in first.values())
        print(f"| {each.name} | {', '.join(map(str, lines))} | {' | '.join(cells)} |", flush=True)
    print(f"| right of {len(tried)} | | {' | '.join(str(right[tool]) for tool in columns)} |")
    print(f"| the line or the cause | | {' | '.join(str(with_cause[tool]) for tool in columns)} |")


def is_right(named: Named, slow: Planted) -> bool:
    """Return whether this is a planted line, or a verdict that includes the planted cause."""
    return slow.cause in INCLUDES.get(named, ()) if isinstance(named, str) else named in slow.lines


def py_spy(script: Path, seconds: float, *options: str) -> int | None:
    """Of `py-spy record`, with the processes that the script starts."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "raw"
        command = ["py-spy", "record", "--subprocesses", "--format", "raw", "--output", str(output), *options, "--"]
        watch([*command, sys.executable, str(script)], Path(folder), seconds, signal.SIGINT)
        lines: Lines = Counter()
        for stack in stacks.read(output).stacks:
            own = [frame.line for frame in stack.frames if frame.path.endswith(script.name) and frame.line]
            if own and not any("_bootstrap" in frame.name and "threading" in frame.path for frame in stack.frames):
                lines[own[-1]] += stack.samples
        return heaviest(lines, script)


def scalene(script: Path, seconds: float) -> int | None:
    """Of `scalene run --cpu-only`."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "profile.json"
        command = [sys.executable, "-m", "scalene", "run", "--cpu-only", "--outfile", str(output), str(script)]
        watch(command, Path(folder), seconds, signal.SIGINT)
        if not output.exists() or not output.stat().st_size:  # it had not ended in time
            return None
        files = json.loads(output.read_text()).get("files", {})
        lines: Lines = Counter()
        for path, found in files.items():
            for each in found["lines"] if path.endswith(script.name) else []:
                lines[each["lineno"]] += sum(
                    each[kind] for kind in ("n_cpu_percent_python", "n_cpu_percent_c", "n_sys_percent")
                )
        return heaviest(lines, script)


def pyinstrument(script: Path, seconds: float) -> int | None:
    """Of a session of pyinstrument, which keeps the lines that its own reports leave out."""
    from pyinstrument.session import Session

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "session.pyisession"
        command = [
            sys.executable,
            "-m",
            "pyinstrument",
            "-i",
            "0.01",
            "-r",
            "pyisession",
            "-o",
            str(output),
            str(script),
        ]
        watch(command, Path(folder), seconds, signal.SIGINT)
        if not output.exists() or not output.stat().st_size:
            return None
        lines: Lines = Counter()
        for stack, weight in Session.load(str(output)).frame_records:
            own = [frame for frame in stack if script.name in frame.split("\x00")[1:2].__str__()]
            of_line = [part[1:] for frame in own[-1:] for part in frame.split("\x01")[1:] if part[0] == "l"]
            lines.update({int(number): weight for number in of_line})
        return heaviest(lines, script)


def traceml(script: Path, seconds: float) -> str | None:
    """Of `traceml run`, which names no line: its verdict of a copy that has the calls that it asks for.

    The copy ends by itself, because a run that is interrupted loses its last seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy, summary = Path(folder) / script.name, Path(folder) / "run" / "final_summary.json"
        copy.write_text(ENDS.format(seconds=START_UP_S + seconds) + traced(script.read_text()))
        command = ["traceml", "run", str(copy), "--run-name", "run", "--logs-dir", folder]
        watch(command, Path(folder), seconds + TRACEML_S, signal.SIGINT)
        return json.loads(summary.read_text())["primary_diagnosis"]["status"] if summary.exists() else None


def traced(source: str) -> str:
    """Return a script with TraceML's calls: at the start, around a step, and where batches come from no DataLoader.

    A loop of Lightning, which has no backward pass in the script, needs none of them.
    """
    tree = ast.parse(source)
    step = next((each for each in ast.walk(tree) if isinstance(each, BLOCKS) and "backward" in methods(each)), None)
    if step is None:
        return source
    call = ast.parse(f"with traceml_ai.trace_step({followed_model(tree, step)}): pass").body[0]
    assert isinstance(call, ast.With)
    call.body, step.body = step.body, [call]
    if isinstance(step, ast.For) and "DataLoader(" not in source:
        step.iter = ast.parse(f"traceml_ai.wrap_dataloader_fetch({ast.unparse(step.iter)})", mode="eval").body
    return f"import traceml_ai\ntraceml_ai.init(mode='auto')\n{ast.unparse(tree)}"


def methods(block: ast.AST) -> Iterator[str]:
    """Yield the names of the methods that a block calls, without the loops and functions inside of it."""
    for each in ast.iter_child_nodes(block):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            yield each.func.attr
        if not isinstance(each, BLOCKS):
            yield from methods(each)


def followed_model(tree: ast.AST, step: ast.AST) -> str:
    """Return the first model that a step calls, of those whose parameters are asked for; else the first of these."""
    calls = (each.func for each in ast.walk(tree) if isinstance(each, ast.Call))
    asked = (each for each in calls if isinstance(each, ast.Attribute) and each.attr == "parameters")
    models = [ast.unparse(each.value).removeprefix("self.").split(".")[0] for each in asked]
    called = [ast.unparse(each.func) for each in ast.walk(step) if isinstance(each, ast.Call)]
    return next((each for each in called if each.removeprefix("self.") in models), models[0])


TOOLS: dict[str, Callable[[Path, float], Named]] = {
    "py-spy": py_spy,
    "py-spy --idle": lambda script, seconds: py_spy(script, seconds, "--idle"),
    "Scalene": scalene,
    "pyinstrument": pyinstrument,
    "TraceML": traceml,
}


def heaviest(lines: Lines, script: Path) -> int | None:
    """Return the line that most of the time is counted for; imports, of which nobody expects more, are left out."""
    imports = {each.lineno for each in ast.walk(ast.parse(script.read_text())) if isinstance(each, IMPORTS)}
    own = {line: weight for line, weight in lines.items() if line not in imports}
    return max(own, key=own.__getitem__, default=None)


def watch(command: list[str], folder: Path, seconds: float, end: signal.Signals) -> None:
    """Let a command run for some seconds of training, end its first process if it has not, and what is left of it."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(START_UP_S + seconds)
        if process.poll() is None:
            os.killpg(process.pid, end)
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):  # it has ended with all that it had started
                os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
