"""Many checks at once on one machine: how do they end if they wait in line, and how if they do not?

    python benchmarks/shared_machine.py --checks 8 --data datasets

Each is `workshop check part3` of the solution, in a folder of its own, as different people have them. All
should end "done".
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from machine import machine

from workshop.parts import SOLUTIONS, find_part


def checks_at_once(count: int, data: Path, line: Path | None) -> tuple[Counter[str], list[float], float]:
    """Return how checks ended, the speedups, and the seconds until the last had ended; `line` is where they wait."""
    part = find_part("part3")
    environment = {**os.environ, "WORKSHOP_OFFLINE": "1", "PYTHONPATH": str(SOLUTIONS.parent)}
    environment |= {"WORKSHOP_QUEUE": str(line)} if line else {}
    began_s, running = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folders:
        for number in range(count):
            folder = Path(folders, str(number))
            folder.mkdir()
            (folder / "train.py").write_bytes(part.solution.read_bytes())
            command = [sys.executable, "-m", "workshop", "check", part.name, "--json", "--data", str(data.resolve())]
            running.append(
                subprocess.Popen(
                    command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                )
            )
        found = [json.loads(each.communicate()[0]) for each in running]
    speedups = [each["speed"]["ratio"] for each in found if each["speed"]]
    return Counter(each["outcome"] for each in found), sorted(speedups), time.monotonic() - began_s


def main() -> None:
    """Print how both end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=8)
    parser.add_argument("--data", type=Path, default=Path("datasets"), help="a folder with the stand-in")
    parser.add_argument("--only", choices=["line", "none"], help="one of the two")
    options = parser.parse_args()
    print(machine())
    for name in ["line", "none"] if options.only is None else [options.only]:
        with tempfile.TemporaryDirectory() as line:
            outcomes, speedups, took_s = checks_at_once(
                options.checks, options.data, Path(line) if name == "line" else None
            )
        ended = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        speeds = f"speedups {speedups[0]:.2f} to {speedups[-1]:.2f}" if speedups else "no speedup"
        print(f"{'in line' if name == 'line' else 'all at once'}: {ended}; {speeds}; {took_s:.0f} s")


if __name__ == "__main__":
    main()
