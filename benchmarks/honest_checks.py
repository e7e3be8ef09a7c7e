"""How often is honest work refused? Whole checks and comparisons of honest scripts, one after the other.

    python benchmarks/honest_checks.py --checks 200 --json honest.jsonl

The scripts are the solutions and those of `tests/honest`, for parts 3, 5 and 10, and for `workshop compare` with their
originals, in turns and in random order. Each is a command as a participant types it. The results are appended to a
file, so that a run can be stopped and continued; `--table` prints what is in it. What counts is "not the same work"
(exit code 3), which is wrong here, and a verdict whose interval holds the target. How fast a script is depends on the
machine, and on the script: some are honest and no faster.
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import machine

ROOT = Path(__file__).parent.parent
TESTS, SOLUTIONS = ROOT / "tests", ROOT / "solutions"

TURNS = ("compare", "part3", "compare", "part5", "compare", "part3", "compare", "part10")
SPEEDUP = ("done", "not there yet")


def scripts(turn: str) -> list[Path]:
    """Return the honest scripts of a part, or of comparisons."""
    if turn == "compare":
        return [path for path in (TESTS / "honest" / "compare").glob("*.py") if path.stem != "variation"]
    if turn == "part3":
        return [SOLUTIONS / "part3.py", *(TESTS / "honest").glob("*.py")]
    if turn == "part5":
        return [SOLUTIONS / "part5.py", SOLUTIONS / "part6.py", TESTS / "honest" / "lmdb_cache.py"]
    return [path for path in (TESTS / "honest" / turn).glob("*.py") if path.stem != "variation"] + [
        SOLUTIONS / f"{turn}.py"
    ]


def commands(dice: random.Random) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the kind of a check, the name of its script, and its command, without end."""
    rounds = {turn: _again_and_again(turn, dice) for turn in TURNS}
    for turn in itertools.cycle(TURNS):
        script = next(rounds[turn])
        if turn == "compare":
            original = TESTS / "originals" / f"{script.stem.partition('_')[0]}.py"
            yield turn, script.stem, ["compare", "--json", str(original), str(script)]
        else:
            yield turn, script.stem, ["check", turn, "--json", "--script", str(script)]


def _again_and_again(turn: str, dice: random.Random) -> Iterator[Path]:
    while True:
        yield from dice.sample(found := sorted(scripts(turn)), len(found))


def checked(command: list[str]) -> dict[str, Any]:
    """Run a command of the workshop, and return how it ended."""
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "workshop", *command], cwd=ROOT, capture_output=True, text=True)
    verdict = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    speed = verdict.get("speed") or {}
    return {
        "exit_code": done.returncode,
        "seconds": time.monotonic() - begin,
        "outcome": verdict.get("outcome", "none"),
        "reasons": verdict.get("reasons") or [done.stderr[-300:]],
        "interval": [speed.get("low"), speed.get("high")] if speed else None,
        "target": speed.get("target"),
    }


def table(checks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row for each kind of check."""
    names = ("checks", "done", "not there yet", "undecided", "refused", "crashed", "against its interval", "seconds")
    yield f"| | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for turn in sorted({each["turn"] for each in checks}):
        of_kind = [each for each in checks if each["turn"] == turn]
        codes = Counter(each["exit_code"] for each in of_kind)
        against = sum(map(_is_against_its_interval, of_kind))
        mean_s = sum(each["seconds"] for each in of_kind) / len(of_kind)
        cells = [len(of_kind), codes[0], codes[1], codes[4], codes[3], codes[5] + codes[2], against, f"{mean_s:.0f}"]
        yield f"| {turn} | {' | '.join(map(str, cells))} |"


def _is_against_its_interval(check: dict[str, Any]) -> bool:
    """Whether a verdict was given although the target is in the interval beside it."""
    if check["outcome"] not in SPEEDUP or not check["interval"] or check["target"] is None:
        return False
    low, high = check["interval"]
    return bool(low <= check["target"] <= high)


def main() -> None:
    """Run checks, and print the table of all that are in the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checks", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin none after so many minutes")
    parser.add_argument("--json", type=Path, default=Path("honest.jsonl"), help="append there (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="by default, another one each time")
    parser.add_argument("--table", action="store_true", help="print the table, and run nothing")
    args = parser.parse_args()
    begin = time.monotonic()
    print(machine(), flush=True)
    for turn, name, command in itertools.islice(commands(random.Random(args.seed)), 0 if args.table else args.checks):
        if time.monotonic() - begin > 60 * args.minutes:
            break
        row = {"turn": turn, "script": name, **checked(command)}
        with args.json.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(f"{turn} {name}: {row['outcome']}, {row['seconds']:.0f} s", flush=True)
    print("\n".join(table([json.loads(line) for line in args.json.read_text().splitlines()])))


if __name__ == "__main__":
    main()
