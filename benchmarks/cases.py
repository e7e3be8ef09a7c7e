"""The checks of part 11: how long do they take, and are they right 1.25 times above and below what is asked?

    python benchmarks/cases.py [--only NAME ...] [--json FILE]

What is asked of a script is 0.8 times the speed of the fixed one. The fixed script itself lies 1.25 times above that.
For the other side its steps are made to take 1.5625 times as long, so that it lies 1.25 times below; where that is not
possible, because workers load meanwhile, this side is left out. Each trial is a whole check.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import machine

from workshop.course.checks import check
from workshop.course.selftest import answers
from workshop.course.state import State
from workshop.judge.verdict import Outcome
from workshop.parts import find_part
from workshop.parts.case import Case, case_names, find_case

PART = find_part("part11")
MARGIN = 1.25

SLOWER = """
import time
from torch.optim.optimizer import register_optimizer_step_post_hook

_last = time.thread_time()


def _slower(*_):
    global _last
    now = time.thread_time()
    end = now + (now - _last) * {more}
    while time.thread_time() < end:
        pass
    _last = time.thread_time()


register_optimizer_step_post_hook(_slower)
"""
"""The time of a step is that of the thread that trains: what it spends stopped by the judge does not count."""


@dataclass
class Trial:
    """One check."""

    case: str
    side: str
    """ "above" or "below" what is asked."""
    outcome: str
    right: bool
    seconds: float
    ratio: float | None
    """The measured one, to the fixed script."""
    pairs: int
    says: str


def main() -> None:
    """Run the trials, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", help="some of the scripts, by their names", metavar="NAME")
    parser.add_argument("--side", choices=["above", "below"], help="of what is asked (default: both)")
    parser.add_argument("--json", type=Path, help="write the trials here, too")
    args = parser.parse_args()

    print(f"{machine()}\n\n| script | true ratio to what is asked | verdict | measured | pairs | seconds |")
    print("|---|---|---|---|---|---|")
    trials = []
    for trial in all_trials(args.only or case_names(PART), args.side):
        trials.append(trial)
        of_asked = MARGIN if trial.side == "above" else 1 / MARGIN
        measured = "" if trial.ratio is None else f"{trial.ratio / PART.change.target:.2f}"
        cells = (trial.case, f"{of_asked:.2f}", trial.outcome, measured, trial.pairs, f"{trial.seconds:.0f}")
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
        if args.json:
            args.json.write_text(json.dumps([asdict(each) for each in trials], indent=1))
    right, undecided = (sum(each) for each in zip(*((t.right, t.outcome == "undecided") for t in trials), strict=True))
    print(f"\n{right} of {len(trials)} right, {undecided} undecided; {max(t.seconds for t in trials):.0f} s at most")


def all_trials(of: list[str], side: str | None) -> Iterator[Trial]:
    """Yield the trials of one side, or of both, one after the other."""
    for name in of:
        case = find_case(PART, name)
        fixed = case.solution.read_text()
        if side != "below":
            yield tried(case, "above", fixed, Outcome.DONE)
        if side != "above" and "num_workers" not in fixed:
            yield tried(case, "below", f"{SLOWER.format(more=MARGIN**2 - 1)}\n{fixed}", Outcome.NOT_YET)


def tried(case: Case, side: str, source: str, expected: Outcome) -> Trial:
    """Check a script, with the right answer."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, case.script)
        script.write_text(source)
        right, _ = answers(case, script)
        begin = time.monotonic()
        verdict = check(case, script, Path(folder), say=lambda _: None, ask=lambda _: right, state=State(Path(folder)))
        seconds = time.monotonic() - begin
    speed = verdict.speed
    return Trial(
        case.case,
        side,
        verdict.outcome.value,
        verdict.outcome is expected,
        seconds,
        speed.ratio if speed else None,
        speed.pairs if speed else 0,
        "; ".join(map(str, verdict.reasons)),
    )


if __name__ == "__main__":
    main()
