"""What a run did in place of what was waited for, in a sentence."""

from pathlib import Path

import pytest

from workshop.probe.activity import note, note_fault
from workshop.probe.observations import ProcessActivity
from workshop.runs.activity_text import counted_activities, describe_activities


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ([], "no process has loaded torch"),
        (
            [ProcessActivity(7, "a.py")],
            "torch is loaded in process 7 (a.py), but no batch of a DataLoader, forward or backward pass was seen",
        ),
        ([ProcessActivity(7, "a.py"), ProcessActivity(8, "a.py")], "torch is loaded in 2 processes, but no batch"),
        (
            [ProcessActivity(7, "a.py"), ProcessActivity(8, "b.py", batches=1, forwards=5, backwards=4)],
            "process 8 (b.py): 1 batch of a DataLoader, 5 forward passes, 4 backward passes, no step of",
        ),
        (
            [ProcessActivity(7, "a.py", forwards=5, transformed=5, optimizer_steps=5)],
            "5 steps of a torch optimizer; 5 of the forward passes inside of torch.func (grad, vmap), where no model",
        ),
        ([ProcessActivity(n, "a.py", optimizer_steps=n) for n in range(1, 6)], "; 2 other processes did likewise"),
        (
            [ProcessActivity(7, "a.py", fault="KeyError: 'x'")],
            "the workshop's probe failed in process 7: KeyError: 'x'",
        ),
    ],
)
def test_what_was_seen(seen: list[ProcessActivity], says: str, tmp_path: Path) -> None:
    for each in seen:
        note(ProcessActivity(each.pid, "before.py"), str(tmp_path))
        note(each, str(tmp_path))
    assert says in describe_activities(tmp_path)


def test_what_was_seen_fits_into_a_line_of_progress(tmp_path: Path) -> None:
    assert counted_activities(tmp_path) == "torch is not loaded yet"
    note(ProcessActivity(7, "a.py"), str(tmp_path))
    assert counted_activities(tmp_path) == "torch is loaded, no training yet"
    note(ProcessActivity(7, "a.py", batches=2, forwards=1), str(tmp_path))
    note(ProcessActivity(8, "a.py", batches=10), str(tmp_path))
    assert counted_activities(tmp_path) == "batches 12, forward 1, backward 0, optimizer 0, in 2 processes"
    note(ProcessActivity(8, "a.py"), str(tmp_path))
    note(ProcessActivity(7, "a.py", forwards=3), str(tmp_path))
    assert counted_activities(tmp_path) == "forward 3, backward 0, optimizer 0", "it makes its own batches"


def test_what_fails_before_anything_is_seen(tmp_path: Path) -> None:
    try:
        raise ImportError("no such hook")
    except ImportError as error:
        note_fault(error, str(tmp_path))
    assert "ImportError: no such hook (test_activity_text.py, line" in describe_activities(tmp_path)


def test_a_folder_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    note(ProcessActivity(7, "a.py"), str(tmp_path / "gone"))
