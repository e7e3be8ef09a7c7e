"""Does `workshop tune` find what trying everything would, and in which part of the time?

    python benchmarks/tuning.py              all scripts of benchmarks/loading
    python benchmarks/tuning.py jitter mixed
    python benchmarks/tuning.py --again 10 in_memory      only tune it, ten times

Each script is tuned, without the proof. Then, in another run, every number of workers is tried with every prefetch
factor, for as long each, in the midst of the training, as `tune` does it: so the sweep saves the start of a process for
each setting. By hand, each setting takes one, and that sum is told, too. At the end of the sweep, the setting that was
taken and the best of the sweep are measured in turns.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

from machine import machine

from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import LoadWith
from workshop.runs.measured_script import staged_script
from workshop.runs.script import run_folder
from workshop.runs.staged_run import WARM_UP_STEPS, StagedRun
from workshop.tuning.loader_trials import within_epochs
from workshop.tuning.tuned_run import tune
from workshop.tuning.tuning_result import Tuning

FOLDER = Path(__file__).parent / "loading"
WORKERS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
PREFETCH_FACTORS = (2, 4, 8)
SWEEP_S = 2.0
"""How long each setting of the sweep is measured."""

SEARCH_S = 30.0
ROUNDS = 3


class Sweep(NamedTuple):
    """The end of a sweep."""

    seconds: float
    by_hand_s: float
    """The same, if the script were started for each setting."""
    best: LoaderSettings
    share: float
    """The rate with the settings that were taken, divided by that with the best of the sweep, measured in turns."""


def scripts() -> list[str]:
    """Return the names of the scripts."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "training")


@contextmanager
def running(name: str) -> Iterator[StagedRun]:
    """Run a script, up to its first steps."""
    with run_folder() as folder, staged_script(str(FOLDER / f"{name}.py"), [], False, folder) as script:
        run = StagedRun(script)
        run.take(WARM_UP_STEPS)
        yield run


def sweep(name: str, found: Tuning) -> Sweep:
    """Try every setting, and compare the best of them with what was taken."""
    present = found.present
    assert present
    taken, only = found.taken or present, 0 if name == "two_loaders" else -1
    numbers = itertools.count()

    def rate(run: StagedRun, settings: LoaderSettings, seconds: float) -> float:
        stage = LoadWith(settings, only, next(numbers))
        steps = run.measure_loading(stage, seconds, seconds, patient=True)
        if steps is None:
            return 0.0
        durations_ms = within_epochs(steps)
        return 1e3 * len(durations_ms) / sum(durations_ms)

    started = time.monotonic()
    with running(name) as run:
        begin = time.monotonic()
        rates = {}
        for workers, factor in itertools.product(WORKERS, PREFETCH_FACTORS):
            settings = replace(present, workers=workers, prefetch_factor=factor, persistent=False)
            if workers or factor == PREFETCH_FACTORS[0]:
                rates[settings] = rate(run, settings, SWEEP_S)
        seconds = time.monotonic() - begin
        best = max(rates, key=rates.__getitem__)
        same = (best.workers, best.prefetch_factor) == (taken.workers, taken.prefetch_factor)
        shares = [1.0] if same else [rate(run, taken, SWEEP_S) / rate(run, best, SWEEP_S) for _ in range(ROUNDS)]
    return Sweep(seconds, seconds + len(rates) * (begin - started), best, geometric_mean(shares))


def main() -> None:
    """Print a row for each script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="names from benchmarks/loading; by default, all")
    parser.add_argument("--again", type=int, default=0, help="only tune, so many times")
    options = parser.parse_args()
    os.chdir(FOLDER)
    print(machine(), file=sys.stderr)
    for name in options.scripts or scripts():
        for _ in range(options.again):
            found = tune(f"{name}.py", [], SEARCH_S, lambda _: None)
            print(f"{name}: {found.advice}, {found.reason}", flush=True)
        if options.again:
            continue
        begin = time.monotonic()
        found = tune(f"{name}.py", [], SEARCH_S, lambda _: None)
        tuned_s = time.monotonic() - begin
        swept = sweep(name, found)
        taken = f"{_name(found.taken)}, {found.speedup:.2f}x" if found.taken else f"{found.advice}"
        busy = "yes" if found.machine and found.machine.busy else "no"
        cells = [name, taken, _name(swept.best), f"{swept.share:.0%}", f"{tuned_s:.0f} s"]
        for seconds in (swept.seconds, swept.by_hand_s):
            cells.append(f"{seconds:.0f} s, {tuned_s / seconds:.0%}")
        print(f"| {' | '.join([*cells, busy])} |", flush=True)


def _name(settings: LoaderSettings) -> str:
    return f"{settings.workers} x {settings.prefetch_factor}" if settings.workers else "0"


if __name__ == "__main__":
    main()
