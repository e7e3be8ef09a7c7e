"""An example of a check that was kept, and of the lines that are kept with it."""

from dataclasses import replace

from workshop.course.kept_checks import KeptCheck, Machine
from workshop.course.kept_lines import KeptFunction, KeptLine, KeptLines
from workshop.judge.verdict import Outcome, Speed, Timing
from workshop.processes.other_load import OtherLoad, Program

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
