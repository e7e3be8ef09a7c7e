"""How often is the gate right? Races of a script against itself, and against itself with a line that was made slower.

    python benchmarks/gate.py --slower 0 10 5 --races 40 --json gate.jsonl

Each race is `workshop compare --base HEAD` in a fresh git repository: a script with its modules, of which one line has
been edited. A step sleeps and computes; the edited line does so for as many percent more. Which line it is, and how it
is edited, is drawn anew for each race. The results are appended to a file, so that a run can be stopped and continued,
and `--table` prints the rates of all that is in it. `--simulate 1000` runs the judge's race on pairs whose ratio is
drawn, with the noises of `decision_rates.py`, and with the restart that confirms a small slowdown.
"""

import argparse
import json
import math
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from decision_rates import NOISES, Noise
from machine import machine

from workshop.gate import judge_against
from workshop.judge.contest import target_of
from workshop.judge.race import RaceResult, race

FILES = {
    "work.py": """
import time
import torch

OPERAND = torch.randn(128, 128)


def spend(units):
    time.sleep(0.00012 * units)
    for _ in range(round(0.6 * units)):
        OPERAND @ OPERAND
""",
    "data.py": """
import torch
from work import spend


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        spend(25)
        value = torch.full((16,), float(index)) / 64
        return value, value[:1]


def join(items):
    spend(25)
    return torch.utils.data.default_collate(items)
""",
    "model.py": """
import torch
from work import spend


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def forward(self, inputs):
        spend(25)
        return self.layer(inputs)
""",
    "train.py": """
import torch
from data import Items, join
from model import Model
from work import spend


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(Items(), batch_size=2, shuffle=True, collate_fn=join)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            spend(25)
            loss.backward()
            optimizer.step()


main()
""",
}
"""A step has 125 units: two items, and one each of the collation, the model and the loop."""

ALLOWED = 0.05
"""The slowdown that is allowed, as by default."""

UNITS = 125
PLACES = {"data.py:11": 2, "data.py:17": 1, "model.py:12": 1, "train.py:18": 1}
"""The lines that may be edited, and how often each runs in a step."""

EDITS = ("changed", "added")
"""The line does more, or there is another line after it."""


def planted(place: str, edit: str, percent: float) -> tuple[dict[str, str], str]:
    """Return the files with a line that makes a step this much slower, and the place of that line."""
    name, _, number = place.partition(":")
    more = UNITS * percent / 100 / PLACES[place]
    lines = FILES[name].splitlines(keepends=True)
    at = int(number)
    line = lines[at - 1]
    assert line.strip() == "spend(25)", (place, line)
    if edit == "changed":
        lines[at - 1] = line.replace("25", f"{25 + more:g}")
        return FILES | {name: "".join(lines)}, place
    lines.insert(at, line.replace("25", f"{more:g}"))
    return FILES | {name: "".join(lines)}, f"{name}:{at + 1}"


def one_race(percent: float, dice: random.Random, budget_s: float) -> dict[str, Any]:
    """Run a race, and return how it ended."""
    place, edit = dice.choice(list(PLACES)), dice.choice(EDITS)
    edited, expected = planted(place, edit, percent) if percent else (FILES, "")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write(folder, FILES)
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "base"]):
            git = ["git", "-c", "user.name=gate", "-c", "user.email=gate@example.org"]
            subprocess.run([*git, *command], cwd=folder, check=True)
        write(folder, edited)
        os.chdir(folder)
        found = judge_against("HEAD", Path("train.py"), [], ALLOWED, budget_s, None, lambda _: None, lambda _: None)
        os.chdir("/")
    speed = found.verdict.speed
    lines = [f"{each.file}:{each.line}" for each in found.lines]
    return {
        "percent": percent,
        "edit": edit if percent else "",
        "outcome": found.verdict.outcome.value,
        "reasons": [*map(str, found.verdict.reasons)],
        "ratio": speed and speed.ratio,
        "interval": speed and (speed.low, speed.high),
        "pairs": speed and speed.pairs,
        "busy": found.verdict.machine is not None and found.verdict.machine.busy,
        "seconds": time.monotonic() - begin,
        "expected": expected,
        "lines": lines,
        "about_lines": str(found.about_lines or ""),
    }


def simulated(percent: float, noise: Noise, start: float, dice: random.Random) -> bool | None:
    """Draw the pairs of a race, and return whether the script was found no slower than allowed; None for undecided.

    Args:
        percent: how much slower it is.
        noise: what chance multiplies the ratio of each pair with.
        start: the standard deviation of what each start of the two scripts multiplies all of its ratios with.
        dice: the source of chance.
    """
    true, target = 1 / (1 + percent / 100), target_of(ALLOWED)

    def run() -> RaceResult:
        ratio = true * math.exp(dice.gauss(0.0, start))
        return race(iter([ratio * math.exp(log) for log in noise(dice)]).__next__, lambda: 1.0, lambda: target)

    result = run()
    if result.must_show_again(slowdown=True):
        result = replace(result, again=run().pairs)
    return result.faster


def simulate(races: int, dice: random.Random) -> Iterator[str]:
    """Yield a row for each kind of noise, with the shares of slower and of undecided at 0, 5 and 10 percent."""
    yield f"{'slower, undecided':<58}" + "".join(f"{f'+{percent} %':>18}" for percent in (0, 5, 10))
    for name, noise in NOISES.items():
        for start in (0.0, 0.02):
            row = f"{name}{', starts by 2 %' * (start > 0)}"
            cells = []
            for percent in (0, 5, 10):
                ends = [simulated(percent, noise, start, dice) for _ in range(races)]
                cells.append(f"{ends.count(False) / races:.2%}, {ends.count(None) / races:.1%}")
            yield f"{row:<58}" + "".join(f"{cell:>18}" for cell in cells)


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files to a folder."""
    for name, text in files.items():
        (folder / name).write_text(text)


def rates(races: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row for each slowdown."""
    widths = {
        "planted": 8,
        "races": 7,
        "slower": 8,
        "not": 6,
        "undecided": 11,
        "other": 7,
        "line right": 12,
        "seconds": 9,
    }
    yield "".join(f"{name:>{width}}" for name, width in widths.items())
    for percent in sorted({each["percent"] for each in races}):
        of_kind = [each for each in races if each["percent"] == percent]
        ends = [each["outcome"] for each in of_kind]
        slower, fine, unsure = (ends.count(name) for name in ("not there yet", "done", "undecided"))
        caught = [each for each in of_kind if each["outcome"] == "not there yet"]
        right = sum(each["lines"][:1] == [each["expected"]] for each in caught) if percent else 0
        mean_s = sum(each["seconds"] for each in of_kind) / len(of_kind)
        of_lines = f"{right} of {len(caught)}" if percent else ""
        rest = len(ends) - slower - fine - unsure
        yield f"{percent:>7g}%{len(ends):>7}{slower:>8}{fine:>6}{unsure:>11}{rest:>7}{of_lines:>12}{mean_s:>9.0f}"


def main() -> None:
    """Run races, and print the rates of all that are in the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slower", type=float, nargs="+", default=[0, 10, 5], help="percent (default: %(default)s)")
    parser.add_argument("--races", type=int, default=20, help="of each (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of each (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=Path("gate.jsonl"), help="append there (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="by default, another one each time")
    parser.add_argument("--table", action="store_true", help="print the rates, and run nothing")
    parser.add_argument("--simulate", type=int, metavar="RACES", help="draw so many races of each kind, run nothing")
    args = parser.parse_args()
    if args.simulate:
        print("\n".join(simulate(args.simulate, random.Random(args.seed))))
        return
    file, dice = args.json.absolute(), random.Random(args.seed)
    print(machine())
    for _ in range(0 if args.table else args.races):
        for percent in args.slower:
            race = one_race(percent, dice, args.budget)
            with file.open("a") as out:
                out.write(json.dumps(race) + "\n")
            print({name: value for name, value in race.items() if name != "reasons"}, flush=True)
    print("\n".join(rates([json.loads(line) for line in file.read_text().splitlines()])))


if __name__ == "__main__":
    main()
