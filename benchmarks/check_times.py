"""How long does a check take, and does it end decided? Each part, with what its lesson says is enough.

    python benchmarks/check_times.py              every part, alone on the machine
    python benchmarks/check_times.py --beside     the same again beside a busy loop
    python benchmarks/check_times.py part3 part5

Each check is a command as a participant types it, in a folder of its own. A part that asks for a change is checked with
its solution, which is the first check there and so may time the solution as well; and then with the least that its
lesson promises to pass, `least` in its `part.toml`, or with the solution again. Of part 11, one script is checked. A
part that only asks a question is checked with the right answer, by a recording that is made before and not timed.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from honest_checks import checked
from machine import machine

from workshop.course import selftest
from workshop.course.given_cases import give
from workshop.course.state import State
from workshop.parts import Part, all_parts, find_part
from workshop.parts.case import case_names, without_fault

ALONE, BESIDE = "alone", "beside a busy loop"


@dataclass(frozen=True)
class Row:
    """A check that has ended."""

    part: str
    what: str
    """What was checked."""
    where: str
    """`ALONE` or `BESIDE`."""
    outcome: str
    seconds: float
    reason: str = ""
    """The first reason of a check that did not end with "done"."""


def tries(part: Part, folder: Path, data: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield what is checked of a part in a folder, and what is typed for it after `workshop check PART`."""
    state = State(folder)
    if case_names(part):
        part = give(part, state, seed=1) or part
    script = folder / part.script
    script.write_bytes(part.beginning.read_bytes())
    options = ["--script", str(script), "--data", str(data)]
    right = selftest.answers(part, script)[0] if part.question else ""
    if part.question and not part.change:
        if part.question.profiled or part.question.recorded:
            selftest.profile(part, part.question.recorded, script, data)
        yield "the right answer", [*options, "--answer", right]
    if not part.change:
        return
    if right:
        state.put(right, "parts", part.name, "answer")
    script.write_bytes(part.solution.read_bytes())
    yield "its solution, the first check", options
    if part.change.least:
        script.write_bytes(without_fault(part.beginning, part.change.least).read_bytes())
        yield "the least that its lesson promises", options
    else:
        yield "its solution again", options


@contextmanager
def busy_loop() -> Iterator[None]:
    """Have another program use a core."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def rows(parts: list[Part], where: str, data: Path) -> Iterator[Row]:
    """Check each of the parts, one after the other."""
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            for what, options in tries(part, Path(folder), data):
                with ExitStack() as beside:
                    if where == BESIDE:
                        beside.enter_context(busy_loop())
                    found = checked(["check", part.name, "--json", *options])
                reason = "" if found["outcome"] == "done" else found["reasons"][0]
                yield Row(part.name, what, where, found["outcome"], found["seconds"], reason)


def table(found: list[Row]) -> Iterator[str]:
    """Yield a row for each thing that was checked, with a column of outcomes and one of seconds for each place."""
    places = [where for where in (ALONE, BESIDE) if any(row.where == where for row in found)]
    yield f"| part | checked with | {' | '.join(f'{where} | s' for where in places)} |"
    yield "|---" * (2 + 2 * len(places)) + "|"
    by_key = {(row.part, row.what, row.where): row for row in found}
    for part, what in dict.fromkeys((row.part, row.what) for row in found):
        ends = [by_key.get((part, what, where)) for where in places]
        cells = [f"{row.outcome} | {row.seconds:.0f}" if row else " | " for row in ends]
        yield f"| {part} | {what} | {' | '.join(cells)} |"


def main() -> None:
    """Check the parts, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", help="(default: all of them)")
    parser.add_argument("--beside", action="store_true", help="check each beside a busy loop, too")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data (default: %(default)s)")
    args = parser.parse_args()
    parts, found = [find_part(name) for name in args.parts] or all_parts(), []
    print(machine(), flush=True)
    for where in (ALONE, BESIDE)[: 1 + args.beside]:
        for row in rows(parts, where, args.data.resolve()):
            print(f"{row.part}, {row.what}, {row.where}: {row.outcome}, {row.seconds:.0f} s {row.reason}", flush=True)
            found.append(row)
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
