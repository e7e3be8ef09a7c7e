"""An example of a check that was kept, and of the lines that are kept with it."""

from dataclasses import replace

from workshop.course.kept_checks import KeptCheck, Machine
from workshop.course.kept_lines import KeptFunction, KeptLine, KeptLines
from workshop.judge.verdict import HALF_DONE, MemoryPeaks, NotLookedAt, Outcome, Speed, Timing
from workshop.runs.other_load import OtherLoad, Program

PHASES = {"data wait": 2.0, "forward": 0.5}
SPEED = Speed(
    "the untouched script", "train.py", 9.0, 30.0, 3.3, 3.1, 3.5, 4, 1.5, PHASES, PHASES | {"data wait": 0.1}, 50.0, 4.0
)
KEPT = KeptCheck(
    part="part3",
    case="",
    script="train.py",
    fingerprint="0123456789abcdef",
    at="2030-05-04T10:20:30+02:00",
    seconds=21.5,
    outcome=Outcome.DONE,
    headline="done",
    reasons=("speedup 3.30x with the same work",),
    unraced="",
    speed=SPEED,
    timing=Timing("one rank", "2 ranks", 2.0, 1.0, "an epoch", 3),
    machine=Machine("a processor", 2, 8_000_000_000, "Linux 6", ("a GPU",)),
    versions={"python": "3.12.1", "torch": "2.9.0"},
    load=OtherLoad(2, 0.5, (Program("vi", 7, 50.0),)),
)

RACED = replace(KEPT, timing=None)
LINES = KeptLines(
    "train.py.lprof",
    "train.py",
    "one",
    "2030-05-04T10:00:00+02:00",
    "",
    (KeptFunction("main", 2.0, (KeptLine(7, 3, 1.9, 0.95, "for batch in loader:"),)),),
)

MEMORY = MemoryPeaks("untouched script", "nowcast.py", 23 << 20, 32 << 20, 155 << 20)
_HALF = f"{HALF_DONE}: the answer is right; the change: not there yet"
_LONG = "the model's input is 3 x 32 x 32, the original's 3 x 64 x 64, and each of its pictures is greyed afterwards"

EVERY_OUTCOME = [
    replace(RACED, part="part1", speed=None, reasons=("the run kept the cores busy for 12 % of the time",), load=None),
    replace(RACED, part="part2", speed=None, outcome=Outcome.NOT_YET, headline="not there yet", state="not there yet"),
    RACED,
    replace(RACED, part="part4", speed=None, outcome=Outcome.BROKEN, headline="crashed", state="crashed"),
    replace(
        RACED,
        part="part5",
        speed=None,
        outcome=Outcome.OTHER_WORK,
        headline="not the same work",
        unraced="a script that does other work is not raced",
        reasons=(_LONG,),
    ),
    replace(RACED, part="part6", speed=None, not_looked_at=NotLookedAt("cpu", ("pin_memory", "a stream of their own"))),
    replace(RACED, part="part7", speed=None, unraced="the check ended before a race"),
    replace(RACED, part="part9", outcome=Outcome.UNDECIDED, headline="undecided", state="undecided"),
    replace(KEPT, part="part10", speed=None, outcome=Outcome.NOT_YET, headline=_HALF, state=HALF_DONE),
    replace(
        KEPT,
        part="part11",
        case="keyword_spotting",
        script="keyword_spotting.py",
        speed=replace(SPEED, original="fixed script", candidate="keyword_spotting.py", ratio=0.98, low=0.9, high=1.1),
        timing=Timing("the untouched script", "keyword_spotting.py", 2.0, 1.4, "50 steps", 3),
    ),
    replace(
        RACED,
        part="part11",
        case="molecule_fingerprints",
        speed=replace(SPEED, original="fixed script"),
        outcome=Outcome.NOT_YET,
        headline=_HALF,
        state=HALF_DONE,
    ),
    replace(
        RACED,
        part="part12",
        script="nowcast.py",
        memory=MEMORY,
        speed=replace(SPEED, candidate="nowcast.py", ratio=1.03, low=0.9, high=1.1, target=0.8),
    ),
]
"""A check of each part but one, and of each outcome; two of part 11."""
