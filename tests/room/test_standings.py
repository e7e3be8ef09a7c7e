"""Who is where, who is stuck, and whose speedup is closest to the solution."""

import secrets
from typing import Any

from workshop.room.posts import RoomReport
from workshop.room.standings import MAX_REFUSALS, STUCK_AFTER_S, Standings
from workshop.room.store import Participant, Presence, ReceivedReport


def standings(*names: str) -> Standings:
    made = Standings({f"part{number}": f"Title {number}" for number in range(1, 4)})
    for name in names:
        made.join(Participant(name, name, name, joined_at=0.0))
    return made


def add(made: Standings, name: str, at: float, part: str = "part1", **fields: Any) -> None:
    fields = {"kind": "check", "outcome": "done"} | fields
    made.add(ReceivedReport(name, at, at, RoomReport(id=secrets.token_hex(16), part=part, at=at, **fields)))


def row(made: Standings, name: str, now: float) -> dict[str, Any]:
    [found] = [each for each in made.board(now, hide_names=False)["people"] if each["name"] == name]
    return dict(found)


def test_somebody_is_at_the_first_open_part_after_the_last_report() -> None:
    made = standings("Ada")
    assert row(made, "Ada", 0.0)["at"] == "part1"
    add(made, "Ada", 10.0, "part2")
    assert row(made, "Ada", 10.0)["at"] == "part3"
    add(made, "Ada", 20.0, "part1", outcome="not there yet")
    assert row(made, "Ada", 20.0)["at"] == "part1"
    add(made, "Ada", 30.0, "part3")
    assert row(made, "Ada", 30.0)["at"] == ""


def test_stuck_is_who_makes_no_progress_and_not_who_gets_faster() -> None:
    made = standings("Ada")
    speed = {"outcome": "not there yet", "low": 1.0, "high": 9.0}
    add(made, "Ada", 600.0, ratio=1.5, **speed)
    add(made, "Ada", 700.0, ratio=1.5, **speed)
    assert row(made, "Ada", 700.0)["progress_at"] == 600.0
    add(made, "Ada", 800.0, ratio=2.0, **speed)
    assert row(made, "Ada", 800.0)["progress_at"] == 800.0
    add(made, "Ada", 900.0, outcome="broken")
    assert row(made, "Ada", 1400.0)["stuck"]
    add(made, "Ada", 1500.0, outcome="half done")
    assert row(made, "Ada", 1500.0)["progress_at"] == 1500.0
    assert row(made, "Ada", 1500.0)["parts"]["part1"]["outcome"] == "half done"


def test_nobody_is_stuck_in_a_part_that_they_have_not_begun() -> None:
    made = standings("Ada")
    assert not row(made, "Ada", 10 * STUCK_AFTER_S)["stuck"]
    add(made, "Ada", 10 * STUCK_AFTER_S)
    assert not row(made, "Ada", 20 * STUCK_AFTER_S)["stuck"], "a talk, between part 1 and part 2"
    add(made, "Ada", 20 * STUCK_AFTER_S, "part2", kind="hint", outcome=None)
    assert not row(made, "Ada", 21 * STUCK_AFTER_S - 1)["stuck"]
    assert row(made, "Ada", 21 * STUCK_AFTER_S)["stuck"]
    assert made.board(21 * STUCK_AFTER_S, hide_names=False)["parts"][1]["stuck"] == 1


def test_who_has_left_or_finished_is_not_stuck() -> None:
    made = standings("Ada", "Grace")
    add(made, "Ada", 0.0, outcome="broken")
    made.set_presence("Ada", Presence.LEFT)
    add(made, "Grace", 0.0, "part3")
    assert not any(each["stuck"] for each in made.board(1e6, hide_names=False)["people"])


def test_a_slow_laptop_can_win() -> None:
    made = standings("Fast", "Slow")
    add(made, "Fast", 1.0, "part2", ratio=8.0, low=7.0, high=9.0, solution_ratio=10.0)
    add(made, "Slow", 1.0, "part2", ratio=1.9, low=1.8, high=2.0, solution_ratio=2.0)
    best = made.board(1.0, hide_names=False)["parts"][1]["best"]
    assert best == [{"name": "Slow", "share": 0.95}, {"name": "Fast", "share": 0.8}]


def test_refusals_are_counted_by_reason_and_only_they() -> None:
    made = standings("Ada", "Grace")
    for name in ("Ada", "Grace"):
        add(made, name, 1.0, outcome="not the same work", reason="the augmentation is frozen")
    add(made, "Ada", 2.0, outcome="not there yet", reason="the loop still waits")
    [refusal] = made.board(2.0, hide_names=False)["refusals"]
    assert refusal == {
        "part": "part1",
        "outcome": "not the same work",
        "reason": "the augmentation is frozen",
        "count": 2,
    }


def test_what_somebody_wrote_goes_with_them_and_the_board_gets_so_many_reasons() -> None:
    made = standings("Ada", "Mallory")
    add(made, "Ada", 1.0, outcome="broken", reason="it crashed")
    for number in range(MAX_REFUSALS + 10):
        add(made, "Mallory", 2.0, outcome="broken", reason=f"rude {number:03}")
    assert len(made.board(3.0, hide_names=False)["refusals"]) == MAX_REFUSALS
    made.people["Mallory"].state = Presence.REMOVED
    assert [each["reason"] for each in made.board(3.0, hide_names=False)["refusals"]] == ["it crashed"]


def test_what_comes_late_does_not_change_what_is_newer() -> None:
    made = standings("Ada")
    add(made, "Ada", 100.0)
    add(made, "Ada", 50.0, outcome="broken")
    assert row(made, "Ada", 100.0)["parts"]["part1"]["outcome"] == "done"


def test_hidden_names_are_nowhere() -> None:
    made = standings("Ada", "Grace")
    add(made, "Ada", 1.0, ratio=2.0, low=2.0, high=2.0, solution_ratio=2.0)
    assert "Ada" not in str(made.board(1.0, hide_names=True))
