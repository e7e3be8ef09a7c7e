"""Is a measured rate one that the script can have? Races of scripts whose rate has a known limit.

    python benchmarks/clock.py --workers 0 4 32 --batches 8 64 --races 10 --json clock.jsonl

Each item of a script sleeps, so that a worker, or a loop without workers, loads an item per sleep at most. A script
with workers is raced against the same one without, by the judge of `workshop compare`. The results are appended to a
file, so that a run can be stopped and continued; `--table` prints what is in it. What is wrong: an epoch that is
faster than the limit by more than 5 %, and an interval whose ends differ by more than two times. Beside the ratio
stands that of the two scripts by themselves.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from machine import machine

from workshop.judge.bench import Bench
from workshop.judge.contest import of_two_scripts
from workshop.judge.laps import Laps
from workshop.judge.time_plan import OutOfTimeError

SCRIPT = """
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    def __len__(self):
        return {batches} * {items}

    def __getitem__(self, index):
        time.sleep({sleep_s})
        return torch.full((16,), index / len(self)), index % 4


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Items(), batch_size={items}, shuffle=True, num_workers={workers}, persistent_workers={persistent}
    )
    for _ in range(1000):
        for inputs, targets in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main()
"""

ALONE_EPOCHS, ALONE_S = 4, 3.0
"""Epochs, at least, and seconds, for which a script runs by itself."""

WITHOUT = {"workers": 0, "persistent": False}
CELL = ("sleep_s", "items", "batches", "workers", "persistent", "budget_s")


def one_race(cell: dict[str, Any]) -> dict[str, Any]:
    """Run a race, and return what it has measured."""
    texts = [SCRIPT.format(**each) for each in (cell | WITHOUT, cell)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        without, script = Path("without.py"), Path("script.py")
        for path, text in zip((without, script), texts, strict=True):
            path.write_text(text)
        contest = of_two_scripts(without, script, [], 1.1, cell["budget_s"])
        try:
            with Bench(contest, lambda _: None) as bench:
                found = raced(bench, cell["items"])
        except OutOfTimeError as error:
            found = {"why_none": str(error)}
        os.chdir("/")
    alone = [epochs_per_s(text) * cell["batches"] * cell["items"] for text in texts]
    return {**cell, **found, "alone": alone}


def raced(bench: Bench, items: int) -> dict[str, Any]:
    """Run the race, and return its ratio and interval, and the candidate's samples per second in each epoch."""
    bench.start()
    if refused := bench.refusal():
        return {"why_none": str(refused.reasons[0])}
    laps = Laps(bench, None)
    result = laps.race()
    return {
        "steps": laps.lap_steps[bench.candidate],
        "rates": [bench.steps * items / epoch.seconds for epoch in laps.epochs[bench.candidate]],
        "ratio": result.ratio,
        "interval": result.interval,
        "pairs": [pair.ratio for pair in result.pairs + result.again],
    }


@cache
def epochs_per_s(script: str) -> float:
    """Return how fast a script is that nobody watches, in the median of its epochs but for the first."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(script)
        with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            ends = [float(process.stdout.readline())]
            while len(ends) <= ALONE_EPOCHS or ends[-1] - ends[0] < ALONE_S:
                ends.append(float(process.stdout.readline()))
            process.terminate()
    return 1 / median(after - before for before, after in itertools.pairwise(ends))


def table(races: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row for each script."""
    yield (
        "| workers | batches of an epoch | steps that are timed | races | limit, samples/s "
        "| the fastest epoch, of that | ratio: median | alone | widest interval | pairs |"
    )
    yield "|---" * 10 + "|"
    scripts = itertools.groupby(sorted(races, key=_script_of), key=_script_of)
    for (sleep_s, items, batches, workers, persistent, _), group in scripts:
        found = [*group]
        over = [race for race in found if "ratio" in race]
        kind = "" if persistent or not workers else ", anew"
        if not over:
            yield f"| {workers}{kind} | {batches} | | {len(found)}, none to its end |"
            continue
        limit = max(workers, 1) / sleep_s
        fastest = max(rate for race in over for rate in race["rates"]) / limit
        alone = median(race["alone"][1] / race["alone"][0] for race in over)
        widest = max((high / low, low, high) for low, high in (race["interval"] for race in over))
        cells = [
            f"{workers}{kind}",
            f"{batches} x {items} x {sleep_s * 1e3:g} ms",
            "/".join(map(str, sorted({race["steps"] for race in over}))),
            f"{len(over)}" + f" of {len(found)}" * (len(over) < len(found)),
            f"{limit:,.0f}",
            f"{fastest:.2f}",
            f"{median(race['ratio'] for race in over):.2f}",
            f"{alone:.2f}",
            f"{widest[1]:.2f} to {widest[2]:.2f}",
            f"{median(len(race['pairs']) for race in over):g}",
        ]
        yield f"| {' | '.join(cells)} |"


def _script_of(race: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(race[name] for name in CELL)


def main() -> None:
    """Run races, and print the table of all that are in the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[0, 1, 2, 4, 8, 16, 32], help="(default: %(default)s)"
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[4, 8, 16, 32, 64], help="of an epoch")
    parser.add_argument("--anew", action="store_true", help="the workers are started anew in each epoch")
    parser.add_argument("--items", type=int, default=4, help="of a batch (default: %(default)s)")
    parser.add_argument("--sleep", type=float, default=0.01, help="seconds of an item (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of a race (default: %(default)s)")
    parser.add_argument("--races", type=int, default=10, help="of each script (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=Path("clock.jsonl"), help="append there (default: %(default)s)")
    parser.add_argument("--table", action="store_true", help="print the table, and run nothing")
    args = parser.parse_args()
    file = args.json.absolute()
    print(machine(), flush=True)
    for _ in range(0 if args.table else args.races):
        for batches, workers in itertools.product(args.batches, args.workers):
            settings = (args.sleep, args.items, batches, workers, workers > 0 and not args.anew, args.budget)
            race = one_race(dict(zip(CELL, settings, strict=True)))
            with file.open("a") as out:
                out.write(json.dumps(race) + "\n")
            print(race, flush=True)
    print("\n".join(table([json.loads(line) for line in file.read_text().splitlines()])))


if __name__ == "__main__":
    main()
