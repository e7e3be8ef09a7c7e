"""The first line that each tool names in a slow script: `workshop measure` beside py-spy, Scalene and pyinstrument.

    pip install scalene pyinstrument
    python benchmarks/diagnosis.py --json diagnosis.json
    python benchmarks/diagnosis_peers.py diagnosis.json

The scripts are those of `benchmarks/diagnosis.py`, each with one planted fault in a line that is known. None of the
peers names a cause, so the comparison is about the line alone: right is the tool whose hottest line of the script is
the planted one. What a tool counts for a library is given to the line of the script that called it, wherever its data
allow that. Each tool watches a script for as long as the others do, and is then told to end, as a person would.
"""

import argparse
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from corpus import planted
from machine import machine

from workshop.profiles import stacks

Lines = Counter[int]
"""The weight of each line of the script."""

OF_SCALENE = ("n_cpu_percent_python", "n_cpu_percent_c", "n_sys_percent")
"""The shares of a line: in Python, in native code, and waiting."""

ENDS_WITHIN_S = 30.0
START_UP_S = 5.0
"""The time in which a script has begun to train."""


def main() -> None:
    """Try each tool with each script, and print a table."""
    parser = argparse.ArgumentParser(description="Which line does each tool name first?")
    parser.add_argument("diagnosis", type=Path, help="what benchmarks/diagnosis.py has found")
    parser.add_argument("--only", nargs="*", help="some of the scripts, by their names", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement (default: %(default)s)")
    parser.add_argument("--corpus", type=Path, help="a folder with a planted.toml (default: slow/ and part 11)")
    args = parser.parse_args()

    found = {each["name"]: each["found"] for each in json.loads(args.diagnosis.read_text())}
    tried = [each for each in planted(args.corpus) if each.name in found and (not args.only or each.name in args.only)]
    columns = ("workshop measure", *TOOLS)
    print(f"{machine()}\n\n| script | planted line | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    right = collections.Counter[str]()
    for each in tried:
        lines, findings = each.lines, found[each.name]
        first = {"workshop measure": findings[0]["line"] if findings else None}
        first |= {tool: run(each.script, args.seconds) for tool, run in TOOLS.items()}
        right.update(tool for tool, named in first.items() if named in lines)
        cells = (f"**{named}**" if named in lines else str(named or "none") for named in first.values())
        print(f"| {each.name} | {', '.join(map(str, lines))} | {' | '.join(cells)} |", flush=True)
    print(f"| right of {len(tried)} | | {' | '.join(str(right[tool]) for tool in columns)} |")


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
        return heaviest(lines)


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
        return heaviest(lines)


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
        return heaviest(lines)


TOOLS: dict[str, Callable[[Path, float], int | None]] = {
    "py-spy": py_spy,
    "py-spy --idle": lambda script, seconds: py_spy(script, seconds, "--idle"),
    "Scalene": scalene,
    "pyinstrument": pyinstrument,
}


def heaviest(lines: Lines) -> int | None:
    """Return the line that most of the time is counted for."""
    return max(lines, key=lines.__getitem__, default=None)


def watch(command: list[str], folder: Path, seconds: float, end: signal.Signals) -> None:
    """Let a command run for some seconds of training, then end its first process, and get rid of what is left."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        time.sleep(START_UP_S + seconds)
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
