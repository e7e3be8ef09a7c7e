"""Measures scripts with a planted memory fault, their twins without, and healthy ones: is the line right, and the gain?

    python benchmarks/memory.py [NAME ...]
    python benchmarks/memory.py --corpus benchmarks/memory/unseen --json memory.jsonl

The lines at fault are marked with "# fault" in each script; the twin is made by what `planted.toml` replaces. What is
named first is the first finding, or without one the line that makes most of the peak. It is right if it is marked, or
if the holder that is named stands in a marked line. The true gain is what the twin has less: at the peak of the tensors
or, if there the twins are alike or the finding is no tensor, of all processes together; of what grows, a step.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus import described
from machine import machine

from workshop.parts.case import without_fault

SCRIPTS = Path(__file__).parent / "memory"
OPTIONS = ("checkpointing",)
SECONDS = "8"
LIMIT_S = 180
WITHIN = 1.3

ALIKE = 0.1
"""Twins whose peaks of tensors differ by less than this share differ elsewhere."""


@dataclass
class Tried:
    """What was found in a script."""

    name: str
    planted: bool
    """Whether it has a fault."""
    cause: str
    """That of the first finding; empty without one."""
    line: int | None
    """The first line that is named."""
    right: bool
    """Whether it is a marked one; of a healthy script, whether nothing was found."""
    stated: float
    """The stated gain, in bytes, or in bytes a step of what grows."""
    true: float
    """What the twin has less."""
    sum_error: float
    overhead: float
    twin: list[str]
    """What was found in the twin, or in a healthy script; why there is nothing, if it could not be measured."""

    @property
    def is_close(self) -> bool:
        """Whether the stated gain is within 1.3 of the true one, to both sides."""
        return bool(self.true > 0 and 1 / WITHIN <= self.stated / self.true <= WITHIN)


def measured(script: Path) -> Any:
    """Return what `workshop memory --json` says of a script."""
    command = [sys.executable, "-m", "workshop", "memory", "--seconds", SECONDS, "--json", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return json.loads(done.stdout)


def marked_lines(script: Path) -> set[int]:
    """Return the numbers of the lines that are marked."""
    return {number for number, line in enumerate(script.read_text().splitlines(), 1) if "# fault" in line}


def faults(found: Any) -> list[Any]:
    """Return the findings that are no options."""
    return [each for each in found["findings"] if each["cause"] not in OPTIONS]


def peak(found: Any) -> int:
    """Return the peak of the tensors."""
    return max((each["peak_bytes"] for each in found["peaks"]), default=0)


def named_first(found: Any) -> Any:
    """Return what is named first, with its line and its holder: a finding, or else the lines that make most."""
    largest = [each["largest_lines"] for each in found["peaks"] if each["largest_lines"]]
    lines = [{**each[0], "bytes": sum(line["bytes"] for line in each)} for each in largest]
    return next(iter(faults(found)[:1] or lines), {"line": None, "holder": ""})


def is_right(named: Any, script: Path) -> bool:
    """Return whether what is named first is marked."""
    lines = script.read_text().splitlines()
    marked = marked_lines(script)
    holder = re.findall(r"\w+", re.sub(r"\[.*?\]", "", named["holder"]))[-1:]
    return named["line"] in marked or any(re.search(rf"\b{name}\b", lines[n - 1]) for name in holder for n in marked)


def sum_error(found: Any) -> float:
    """Return how far the sum of tensors is from what the allocator says, as a share; nan if it was not asked."""
    asked = [each for each in found["peaks"] if each["allocator_bytes"]]
    errors = (abs(each["followed_bytes"] / each["allocator_bytes"] - 1) for each in asked)
    return max(errors, default=float("nan"))


def growth(found: Any, place: str) -> float:
    """Return how many bytes each step adds: to the process, if the place is the host, or else to the tensors."""
    if place == "host":
        return float((found["process_growth"] or {}).get("bytes_a_step", 0))
    return float(sum(each["bytes_a_step"] for each in found["growing"]))


def compared(planted: Any, twin: Any) -> tuple[float, float]:
    """Return the stated and the true gain of what is named first; of a line without a finding, what it makes."""
    first = next(iter(faults(planted)), None)
    if first and first["bytes_a_step"] and first["cause"] not in ("cache-per-worker", "epoch-kept"):
        place = first["place"]
        return first["bytes_a_step"], growth(planted, place) - growth(twin, place)
    stated = first["gain_bytes"] if first else named_first(planted).get("bytes", 0)
    is_of_host = first is not None and first["place"] == "host"
    if not is_of_host and abs(peak(planted) - peak(twin)) > ALIKE * peak(planted):
        return stated, peak(planted) - peak(twin)
    return stated, planted["host"]["together_bytes"] - twin["host"]["together_bytes"]


def tried(script: Path, fixed: Path) -> Tried:
    """Measure a script with a fault, and its twin."""
    planted, twin = measured(script), measured(fixed)
    first, named = next(iter(faults(planted)), None), named_first(planted)
    return Tried(
        script.stem,
        True,
        first["cause"] if first else "",
        named["line"],
        is_right(named, script),
        *compared(planted, twin),
        sum_error(planted),
        planted["overhead"] or 0.0,
        [each["cause"] for each in faults(twin)],
    )


def healthy(script: Path) -> Tried:
    """Measure a script without a fault."""
    found = measured(script)
    names = [each["cause"] for each in faults(found)]
    return Tried(script.stem, False, "", None, not names, 0, 0, sum_error(found), found["overhead"] or 0.0, names)


def try_all(corpus: Path, only: list[str]) -> Iterator[Tried]:
    """Try the scripts with a fault, then the healthy ones."""
    fixes = {corpus / f"{name}.py": values["fix"] for name, values in sorted(described(corpus).items())}
    for script in [*fixes, *sorted((corpus / "healthy").glob("*.py"))]:
        if not only or script.stem in only:
            try:
                yield tried(script, without_fault(script, fixes[script])) if script in fixes else healthy(script)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                print(f"{script.name}: {error}\n{error.stderr or ''}", file=sys.stderr)
                why = type(error).__name__
                yield Tried(script.stem, script in fixes, "", None, False, 0, 0, float("nan"), 0.0, [why])


def main() -> None:
    """Print a row for each script, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", metavar="NAME", help="some of the scripts")
    parser.add_argument("--corpus", type=Path, default=SCRIPTS, help="the folder (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="append what was found there")
    args = parser.parse_args()
    print(f"{machine()}\n\n| script | first | line | stated | true | sum off by | overhead | twin |")
    print("|---" * 8 + "|", flush=True)
    rows = []
    for each in try_all(args.corpus, args.only):
        rows.append(each)
        print(row(each), flush=True)
        if args.json:
            with args.json.open("a") as out:
                out.write(json.dumps(asdict(each)) + "\n")
    print(sums([each for each in rows if each.planted], [each for each in rows if not each.planted]))


def sums(planted: list[Tried], healthy: list[Tried]) -> str:
    """Return how many are right, of all that were tried: a script that could not be measured is wrong."""
    return (
        f"\nline right: {sum(each.right for each in planted)} of {len(planted)}; "
        f"gain within {WITHIN}: {sum(each.is_close for each in planted)} of {len(planted)}; "
        f"without a finding: twins {sum(not each.twin for each in planted)} of {len(planted)}, "
        f"healthy scripts {sum(not each.twin for each in healthy)} of {len(healthy)}"
    )


def row(each: Tried) -> str:
    """Return a row of the table."""
    line = f"{each.line or ''}{'' if each.right else ' **wrong**'}"
    sizes = [f"{size / 2**20:.2f} MiB" if size else "" for size in (each.stated, each.true)]
    found = ", ".join(each.twin) or "healthy"
    cells = [each.name, each.cause, line, *sizes, f"{each.sum_error:.2%}", f"{each.overhead:.1%}", found]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
