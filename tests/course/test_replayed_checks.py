"""A check of each part that asks for a change: failed before it is done, passed with the solution, cheats refused.

What the scripts do was recorded once, and is handed over by scripts that do nothing; how long their epochs take is made
up. Part 9 is in parts/test_part9.py, and the answers to questions in test_answers.py.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from replayed_scripts import Replay, ReplayedScript, replay
from said import labels

from workshop.course import checks
from workshop.course.state import State
from workshop.judge import laps
from workshop.judge.race import Pair, RaceResult
from workshop.judge.race_verdict import Indecision
from workshop.judge.time_plan import FIRST_EPOCHS
from workshop.judge.verdict import Outcome, Verdict
from workshop.memory import memory_run
from workshop.parts import Part, find_part
from workshop.parts.case import find_case
from workshop.parts.part11.case_check import missing_results
from workshop.runs.other_load import OtherLoad, Program

Check = Callable[..., Verdict]


@pytest.fixture
def check(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check a participant's script by a part, given its evidence, and that of its original and of the solution."""

    def run(
        name: str | Part,
        mine: str,
        original: str = "original",
        kept: str = "part3",
        warn: Callable[[str], None] | None = None,
        say: Callable[[str], None] = lambda _: None,
        **replayed: Any,
    ) -> Verdict:
        part = find_part(name) if isinstance(name, str) else name
        path = tmp_path / "mine.py"
        path.write_text("this = 'is not run'")
        evidence = {part.solution.stem: part.solution.stem, part.original_script.stem: original, "mine": mine}
        evidence[part.untouched.stem] = "original"
        replay(monkeypatch, Replay(kept, evidence, **replayed))
        return checks.check(part, path, data, device="cpu", say=say, state=State(tmp_path), warn=warn)

    return run


QUICK, HARDLY = {"part3": 0.3, "mine": 0.35}, {"part3": 0.3, "mine": 0.9}


@pytest.mark.parametrize(
    ("mine", "seconds", "outcome", "ratio"),
    [
        ("part3", HARDLY, Outcome.NOT_YET, 1 / 0.9),
        ("part1", {"part3": 0.3}, Outcome.NOT_YET, 1.0),
        ("part3", {"part3": 0.9, "mine": 0.96}, Outcome.UNDECIDED, 1 / 0.96),
        ("part3", {"part3": 0.32, "mine": 0.65}, Outcome.DONE, 1 / 0.65),
        ("part3", {"part3": 0.32, "mine": 0.72}, Outcome.NOT_YET, 1 / 0.72),
        ("part3", {"part3": 0.4, "mine": 0.95}, Outcome.NOT_YET, 1 / 0.95),
        ("last_batch_dropped", QUICK, Outcome.OTHER_WORK, None),
        ("own_loss", QUICK, Outcome.UNDECIDED, None),
    ],
    ids=[
        "hardly faster",
        "nothing gained",
        "a machine that cannot show it",
        "two workers",
        "less than two workers",
        "hardly faster on a slow machine",
        "cheat",
        "unseen",
    ],
)
def test_part3(mine: str, seconds: dict[str, float], outcome: Outcome, ratio: float | None, check: Check) -> None:
    verdict = check("part3", mine, seconds=seconds)
    assert verdict.outcome is outcome
    assert (verdict.speed and verdict.speed.ratio) == (ratio and pytest.approx(ratio))
    if verdict.speed:
        assert (verdict.speed.pairs, verdict.speed.solution_ratio) == (3, pytest.approx(1 / seconds["part3"], abs=1e-3))


def test_a_check_that_is_ended_in_its_race_says_what_was_proven(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(before, after, target, budget_s, on_pair) -> None:  # type: ignore[no-untyped-def]
        pairs = tuple(Pair(before() * times, after()) for times in (1.0, 1.5))
        on_pair(RaceResult(target(), pairs))
        raise KeyboardInterrupt

    monkeypatch.setattr(laps, "race", ended)
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        check("part3", "part3", seconds=QUICK, warn=told.append)
    says = r"same work: proven in \d+ s; the race was not finished: 2 of at most 30 pairs, so far 2.86x to 4.29x"
    assert re.fullmatch(says, told[-1])


def test_the_solution_of_part3_is_done_and_is_measured_once(check: Check) -> None:
    verdict = check("part3", "part3", seconds=QUICK)
    assert verdict.outcome is Outcome.DONE
    assert verdict.speed
    assert (verdict.speed.ratio, verdict.speed.pairs) == (pytest.approx(1 / 0.35), 3)
    assert verdict.speed.solution_ratio == pytest.approx(1 / 0.3, abs=1e-3)
    again = check("part3", "part3", seconds=QUICK | {"part3": 0.5})
    assert again.speed
    assert again.speed.solution_ratio == pytest.approx(1 / 0.3, abs=1e-3)
    for expected in (3.333, 5.0):  # what was kept is beaten, so it was measured badly: the next check does so anew
        beaten = check("part3", "part3", seconds={"part3": 0.2, "mine": 0.2})
        assert beaten.speed
        assert beaten.speed.solution_ratio == expected


@pytest.mark.parametrize(
    ("mine", "outcome", "kind"),
    [
        ("part5", Outcome.DONE, "cache-empty-cache"),
        ("part3", Outcome.NOT_YET, "cache-nothing-kept"),
        ("epochs_from_memory", Outcome.OTHER_WORK, "order-same-batches"),
    ],
)
def test_part5(mine: str, outcome: Outcome, kind: str, check: Check) -> None:
    verdict = check("part5", mine, seconds={"mine": 0.05, "part5": 0.05}, epochs=2)
    assert verdict.outcome is outcome
    assert kind in labels(verdict.reasons)


@pytest.mark.parametrize(
    ("solution_s", "mine_s", "outcome", "target"),
    [
        (0.1, 0.15, Outcome.DONE, 3.0),
        (0.1, 0.5, Outcome.NOT_YET, 3.0),
        (1 / 4.3, 1 / 4.2, Outcome.DONE, 1.5),
        (1 / 4.3, 1 / 1.2, Outcome.NOT_YET, 1.5),
        (1 / 1.3, 1.0, Outcome.UNDECIDED, 1.1),
        (1 / 1.3, 1 / 1.2, Outcome.DONE, 1.1),
        (1.2, 1.0, Outcome.UNDECIDED, 1.1),
    ],
)
def test_what_is_asked_for_follows_from_what_the_solution_reaches_here(
    solution_s: float, mine_s: float, outcome: Outcome, target: float, check: Check
) -> None:
    for _ in range(2):  # measured, and as it was kept
        verdict = check("part5", "part5", seconds={"mine": mine_s, "part5": solution_s}, epochs=2)
        assert verdict.speed
        assert (verdict.outcome, verdict.speed.target) == (outcome, target)
        assert (verdict.undecided == Indecision.RULED_OUT) == (outcome is Outcome.UNDECIDED)


def test_beside_other_programs_the_solution_is_timed_again_and_that_is_not_kept(check: Check, tmp_path: Path) -> None:
    assert check("part3", "part3", seconds=QUICK).speed
    busy = OtherLoad(2, 1.2, (Program("python3 other.py", 3346, 110.0),))
    verdict = check("part3", "part3", seconds={"part3": 0.4, "mine": 0.7}, load=busy)
    assert verdict.speed
    assert (verdict.outcome, verdict.speed.target, verdict.speed.solution_ratio) == (Outcome.DONE, 1.1, 2.5)
    verdict = check("part3", "part3", seconds={"part3": 0.9, "mine": 0.96}, load=busy)
    assert (verdict.outcome, verdict.undecided) == (Outcome.UNDECIDED, Indecision.OTHER_LOAD)
    assert "Close python3 other.py (process 3346" in str(verdict.next)
    [kept] = State(tmp_path).values["calibration"].values()
    assert kept == {"part3": pytest.approx(1 / 0.3, abs=1e-3)}


def test_the_line_before_a_race_says_what_is_asked_for(check: Check) -> None:
    said: list[str] = []
    for _ in range(2):
        check("part5", "part5", seconds={"mine": 0.24, "part5": 1 / 4.3}, epochs=2, say=said.append)
    first, again = (line for line in said if line.startswith("racing against the untouched script in turn; "))
    assert first.endswith("; asked for: at most 3x")
    assert again.endswith("; asked for: 1.5x")


@pytest.mark.parametrize(
    ("name", "seconds", "least"),
    [
        ("part3", {"part1": 5.3, "part3": 1.3, "mine": 2.7}, {}),
        ("part5", {"part1": 5.2, "part5": 1.2, "mine": 1.2}, {"epochs": 2}),
    ],
)
def test_a_check_of_a_solved_part_trains_for_less_than_a_minute(
    name: str, seconds: dict[str, float], least: dict[str, int], check: Check
) -> None:
    """With the seconds of two cores; three scripts take some six seconds to start."""
    for epochs_of_solution in (5, 0):
        assert check(name, name, seconds=seconds, **least).outcome is Outcome.DONE
        trained = Counter(script for script, _ in ReplayedScript.trained)
        assert trained[name] == epochs_of_solution
        assert trained["part1"] == 1 + 3 + 1, "its first, three pairs, and one from memory"
        assert trained["mine"] == FIRST_EPOCHS + 3 + (name == "part5")
        assert sum(spent for _, spent in ReplayedScript.trained) < 50


def test_a_check_that_takes_more_than_a_minute_says_so_at_once_and_why(check: Check) -> None:
    told: list[str] = []
    for _ in range(2):
        check("part3", "part3", seconds={"part1": 20.0, "part3": 6.0, "mine": 6.0}, warn=told.append)
    first, second = told
    assert re.match(
        r"This takes about \d+ s: the first epochs took 20.0 s unchanged and 6.0 s now, and the solution is ", first
    )
    assert re.fullmatch(r"This takes about \d+ s: the first epochs took 20.0 s unchanged and 6.0 s now.", second)
    check("part6", "part6", copied="ahead", seconds={"part5": 20.0, "mine": 20.0}, warn=told.append)
    assert len(told) == 2, "there is no race"


@pytest.mark.parametrize(
    ("mine", "copied", "outcome", "kind", "batches"),
    [
        ("part6", "ahead", Outcome.DONE, "copy-ahead", 8),
        ("part6", "in time", Outcome.NOT_YET, "copy-ahead", 0),
        ("last_batch_dropped", "ahead", Outcome.OTHER_WORK, "work-last-batch-dropped", None),
    ],
)
def test_part6(mine: str, copied: str, outcome: Outcome, kind: str, batches: int | None, check: Check) -> None:
    verdict = check("part6", mine, copied=copied)
    assert verdict.outcome is outcome
    assert labels(verdict.reasons[:1]) == [kind]
    assert verdict.reasons[0].figures.get("ahead") == batches
    assert verdict.speed is None, "a machine without a GPU need not show it"
    assert verdict.unraced == "", "nor is there a race on one with a GPU"
    unlooked = verdict.not_looked_at and verdict.not_looked_at.device
    assert unlooked == ("cpu" if outcome is Outcome.DONE else None)


@pytest.mark.parametrize(
    ("mine", "outcome", "kind"),
    [
        ("part10", Outcome.DONE, "rank-together"),
        ("original", Outcome.NOT_YET, "rank-separate"),
        ("gradients_not_averaged", Outcome.OTHER_WORK, "work-ranks-apart"),
    ],
)
def test_part10(mine: str, outcome: Outcome, kind: str, check: Check, tmp_path: Path) -> None:
    State(tmp_path).put("1", "parts", "part10", "answer")
    verdict = check("part10", mine, kept="part10")
    assert (verdict.outcome, labels(verdict.reasons[:1])) == (outcome, [kind])


PRINTED = "Epoch 1: loss 0.512, skill 0.250"


@pytest.mark.parametrize(
    ("mine", "mib", "seconds", "outcome", "kind"),
    [
        ("part12", 20, 1.0, Outcome.DONE, "memory-within-limit-now"),
        ("part12", 20, 1.6, Outcome.NOT_YET, "memory-within-limit-now"),
        ("original", 40, 1.0, Outcome.NOT_YET, "memory-over-limit"),
        ("lower_precision", 20, 1.0, Outcome.OTHER_WORK, "work-autocast"),
    ],
)
def test_part12(
    mine: str,
    mib: int,
    seconds: float,
    outcome: Outcome,
    kind: str,
    check: Check,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peak = SimpleNamespace(memory=SimpleNamespace(peak_bytes=mib << 20), segment=SimpleNamespace(name="", step=7))
    monkeypatch.setattr(memory_run, "follow", lambda *_: SimpleNamespace(peak=peak, grown_bytes=0))
    verdict = check("part12", mine, kept="part12", seconds={"mine": seconds}, printed=PRINTED)
    assert verdict.outcome is outcome
    assert labels(verdict.reasons)[0] == kind
    if outcome is not Outcome.OTHER_WORK:
        assert verdict.memory
        before = None if mib > 32 else mib << 20
        assert (verdict.memory.after_bytes, verdict.memory.before_bytes) == (mib << 20, before)


@pytest.mark.parametrize(
    ("mine", "seconds", "outcome"),
    [
        ("part12", 1.0, Outcome.DONE),
        ("part12", 1.5, Outcome.NOT_YET),
        ("lower_precision", 1.0, Outcome.OTHER_WORK),
    ],
)
def test_a_script_of_part11(mine: str, seconds: float, outcome: Outcome, check: Check, tmp_path: Path) -> None:
    case = find_case(find_part("part11"), "tide_levels")
    State(tmp_path).put("20:tiny-operators", "parts", "part11", "answer")
    verdict = check(case, mine, kept="part12", seconds={"mine": seconds, case.untouched.stem: 3.0})
    assert verdict.outcome is outcome
    assert (verdict.timing and verdict.timing.ratio) == (3.0 if outcome is Outcome.DONE else None)


def test_results_that_a_script_of_part11_does_not_leave(tmp_path: Path) -> None:
    steps: list[int] = []
    candidate = SimpleNamespace(output=SimpleNamespace(text=lambda: "loss 0.5"), work_folder=tmp_path)
    ledger, train = SimpleNamespace(steps=steps), lambda _: steps.extend(range(40))
    bench: Any = SimpleNamespace(ledger=lambda: ledger, epoch=train, candidate=candidate)
    case: Any = SimpleNamespace(prints=("loss", "accuracy"), writes=("a.json", "b.json"))
    (tmp_path / "a.json").touch()
    printed, written = missing_results(bench, case)
    assert len(steps) > 100
    assert printed.figures["text"] == "accuracy"
    assert written.figures["file"] == "b.json"
