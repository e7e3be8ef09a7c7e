"""Does `workshop measure` name what holds a script up, and say how much fixing it brings? Tried on a corpus.

    python benchmarks/diagnosis.py --json diagnosis.json

The scripts are those of `corpus.py`, each with one planted fault, and those in `slow/healthy/`, without one. Each is
measured as `workshop measure` does; of the twin, only the steps are timed. Whatever else the machine does meanwhile is
in the figures.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corpus import SLOW, Planted, planted
from machine import machine

from workshop.diagnosis.diagnosis import Diagnosis, diagnose
from workshop.diagnosis.stages import CLOSER_STEPS, measure
from workshop.diagnosis.tried import tried_changes
from workshop.probe.cause import CausePlace
from workshop.probe.messages import AsItIs
from workshop.probe.trials import tried_causes
from workshop.runs.measured_script import staged_script
from workshop.runs.script import run_folder
from workshop.runs.staged_run import WARM_UP_STEPS, StagedRun

NOTED = {"kept-graphs", "recompilations"}
"""The causes that have no measured gain, and are no finding but a note."""

WITHIN = 1.3
"""A gain is right if the twin's lies in the stated range, or no more than this many times outside of it."""

MAX_LIMIT = 2.0
"""A stated limit is right, too, if the twin's gain is below it, and it is no more than this many times the twin's."""

NOISE = 1.05
"""A twin that is faster than the stated limit by less than this may owe it to the noise of two runs."""


@dataclass
class Tried:
    """What was found in one script."""

    name: str
    cause: str
    """The planted one; empty for a healthy script."""
    right_line: bool
    right_cause: bool
    gain: float
    """As it is stated by the first finding; 1.0 without one."""
    reached: float
    """By the fixed twin."""
    found: list[dict[str, Any]]
    notes: tuple[str, ...] = ()
    """What was said besides."""
    trials: list[dict[str, Any]] = field(default_factory=list)
    """What was tried on copies of the model, and brought something."""
    largest: str = ""
    """The half of a step with the largest headroom; empty if none is known."""

    @property
    def named(self) -> bool:
        """Whether the first finding names the line, or the cause; or a note, of what takes memory."""
        return self.right_line or self.right_cause

    @property
    def faults(self) -> list[dict[str, Any]]:
        """The findings that are no options: a healthy script has none, but a setting may be faster on this machine."""
        options = {name for name, each in tried_causes().items() if each.place is CausePlace.OPTION}
        return [each for each in self.found if each["cause"] not in options]

    @property
    def no_less(self) -> bool:
        """Whether the stated gain is a limit."""
        return self.reached <= self.gain * NOISE

    @property
    def too_much(self) -> bool:
        """Whether the twin misses by far even the lower end of what was stated."""
        low = self.found[0]["gain_low"] if self.found else 1.0
        return self.gain > self.reached * MAX_LIMIT if low is None else low > self.reached * WITHIN

    @property
    def close(self) -> bool:
        """Whether the twin's gain is about what was stated, to both sides."""
        return not self.too_much and self.reached <= self.gain * WITHIN


def main() -> None:
    """Try the scripts, and print a table."""
    parser = argparse.ArgumentParser(description="Try `workshop measure` on scripts with a planted fault.")
    parser.add_argument("--only", nargs="*", help="some of the scripts, by their names", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement (default: %(default)s)")
    parser.add_argument("--corpus", type=Path, help="a folder with a planted.toml (default: slow/ and part 11)")
    parser.add_argument("--json", type=Path, help="write what was found here, too")
    args = parser.parse_args()

    print(f"{machine()}\n\n| script | planted | first finding | stated | reached |\n|---|---|---|---|---|")
    tried = []
    for each in try_all(args.corpus, args.seconds, args.only):
        first = f"{each.found[0]['cause']}, line {each.found[0]['line']}" if each.found else "none"
        first += f"; noted: {each.cause}" if each.cause in NOTED and each.right_cause else ""
        if each.found and each.found[0]["decided_in"]:
            first += f", decided in line {each.found[0]['decided_in'][1]}"
        mark = "" if each.named or not (each.cause or each.faults) else " **wrong**"
        print(f"| {each.name} | {each.cause} | {first}{mark} | {each.gain:.2f} | {each.reached:.2f} |", flush=True)
        tried.append(each)
        if args.json:
            args.json.write_text(json.dumps([asdict(each) for each in tried], indent=1))
    summarize(tried)


def try_all(corpus: Path | None, seconds: float, only: list[str] | None) -> Iterator[Tried]:
    """Try the scripts with a fault, then the healthy ones."""
    for each in planted(corpus):
        if not only or each.name in only:
            yield try_slow(each, seconds)
    for path in sorted(((corpus or SLOW).absolute() / "healthy").glob("*.py")):
        if not only or path.stem in only:
            yield try_healthy(path, seconds)


def try_slow(slow: Planted, seconds: float) -> Tried:
    """Measure a script, and time its twin."""
    diagnosis = measured(slow.script, seconds)
    found = diagnosis.findings
    fixed_ms = timed_ms(slow.fixed, seconds)
    first = found[0] if found else None
    named = {(first.file, first.line), first.decided_in} if first else set()
    noted = [each.about for name, each in diagnosis.measurement.observations.noticed.items() if name == slow.cause]
    return Tried(
        slow.name,
        slow.cause,
        right_line=any(
            (str(slow.script), line) in named or any(f"line {line})" in each for each in noted) for line in slow.lines
        ),
        right_cause=bool(noted or (first and first.cause == slow.cause)),
        gain=first.gain if first else 1.0,
        reached=diagnosis.measurement.steps.ms_a_step / fixed_ms,
        found=[asdict(each) for each in found],
        notes=told(diagnosis),
        trials=effective(diagnosis),
        largest=largest_headroom(diagnosis),
    )


def try_healthy(path: Path, seconds: float) -> Tried:
    """Measure a script without a fault."""
    found = measured(path, seconds)
    gain, faults = found.findings[0].gain if found.findings else 1.0, [asdict(each) for each in found.findings]
    return Tried(path.stem, "", False, False, gain, 1.0, faults, told(found), effective(found), largest_headroom(found))


def largest_headroom(diagnosis: Diagnosis) -> str:
    """Return the half of a step with the largest headroom; empty if none is known."""
    known = diagnosis.headrooms.known if diagnosis.headrooms else {}
    return str(max(known, key=lambda half: known[half].gain, default=""))


def measured(script: Path, seconds: float) -> Diagnosis:
    """Measure a script, and return what is found in it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return diagnose(measure(str(script), [], seconds, lambda _: None))


def told(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Return what is said beside the figures."""
    return tuple(map(str, diagnosis.measurement.notes))


def effective(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Return the trials that brought something."""
    return [each.as_dict() for each in tried_changes(diagnosis.measurement) if each.has_effect]


def timed_ms(script: Path, seconds: float) -> float:
    """Return the time of a step in milliseconds, as `measure` takes it, and try nothing."""
    with (
        tempfile.TemporaryDirectory() as here,
        contextlib.chdir(here),
        run_folder() as folder,
        staged_script(str(script), [], False, folder) as started,
    ):
        run = StagedRun(started)
        run.take(WARM_UP_STEPS + CLOSER_STEPS)
        stage = run.measure(AsItIs(), seconds)
    if stage is None:
        raise run.error or SystemExit(f"{script} has no step")
    return stage.together.ms_a_step


def summarize(tried: list[Tried]) -> None:
    """Print the shares of what is right."""
    slow, healthy = [each for each in tried if each.cause], [each for each in tried if not each.cause]
    if slow:
        of = len(slow)
        named, no_less = sum(each.named for each in slow), sum(each.no_less for each in slow)
        close, too_much = sum(each.close for each in slow), sum(each.too_much for each in slow)
        print(f"\nNamed: {named} of {of}. No less than reached: {no_less} of {of}.")
        right = f"Within {WITHIN} times to both sides, or a limit that is at most {MAX_LIMIT:g} times the gain"
        print(f"{right}: {close} of {of}. Promised too much: {too_much} of {of}.")
    if healthy:
        without, faster = (sum(not each.faults for each in healthy), sum(bool(each.found) for each in healthy))
        print(f"Healthy scripts without a fault: {without} of {len(healthy)}; with a finding of any kind: {faster}.")
    print("\n| script | trial | stated | results | twin |\n|---|---|---|---|---|")
    for each in tried:
        for trial in each.trials:
            stated = f"{trial['gain']:.2f}x" + f" to {trial['most_gain']:.2f}x" * (trial["most_gain"] > trial["gain"])
            twin = f"{each.reached:.2f}x" if trial["name"] == each.cause else ""
            print(f"| {each.name} | {trial['name']}, {trial['about']} | {stated} | {trial['results']} | {twin} |")


if __name__ == "__main__":
    sys.exit(main())
