"""Answers are judged by the participant's own line profile; the other judges are tried by the selftest."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run
from said import labels

from workshop.cli.output import given
from workshop.course import checks
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import find_part
from workshop.runs import load_beside
from workshop.runs.other_load import OtherLoad

Answer = Callable[..., Verdict]

NEVER_RAN = "from line_profiler import profile\n@profile\ndef main():\n    pass\n"
RAN = f"{NEVER_RAN}main()"


@pytest.fixture
def answer(project: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Judge an answer to part 2; the test's own folder is that of the script and of the terminal."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(project / "train.py", tmp_path)

    def judge(text: str, script: str = "train.py", recording: Path | None = None) -> Verdict:
        part, path = find_part("part2"), tmp_path / script
        return checks.check(part, path, data, say=lambda _: None, ask=given(text), recording=recording)

    return judge


@pytest.fixture
def profile(run: Run, tmp_path: Path) -> Callable[[str, str], None]:
    """Write a script, and profile it from the test's own folder."""

    def write_and_profile(source: str, script: str = "train.py") -> None:
        (tmp_path / script).parent.mkdir(exist_ok=True)
        (tmp_path / script).write_text(source)
        assert run("-m", "kernprof", "-l", tmp_path / script).returncode == 0

    return write_and_profile


def test_a_profile_of_another_file_is_named(answer: Answer, profile: Callable[..., None], tmp_path: Path) -> None:
    profile(RAN, "other/train.py")
    verdict = answer("1")
    assert verdict.outcome is Outcome.NOT_YET
    other = tmp_path / "other" / "train.py"
    of_other = f"does not cover main of {tmp_path}/train.py; it was taken of {other}"
    assert str(verdict.reasons[0]).endswith(f"{of_other}; name another profile by --recording FILE")

    # Beside the other one it counts, though kernprof was run elsewhere.
    assert answer("4", "other/train.py").outcome is Outcome.DONE
    beside = (tmp_path / "train.py.lprof").rename(tmp_path / "before.lprof")
    assert answer("4", "other/train.py").outcome is Outcome.DONE, "whatever its name is"
    (tmp_path / "more").mkdir()
    elsewhere = beside.rename(tmp_path / "more" / "before.lprof")
    assert labels(answer("4", "other/train.py").reasons) == ["line-no-profile"]
    assert answer("4", "other/train.py", elsewhere).outcome is Outcome.DONE


def test_a_function_that_never_ran(answer: Answer, profile: Callable[..., None]) -> None:
    profile(NEVER_RAN)
    assert labels(answer("4").reasons) == ["line-never-ran"]


def test_an_answer_that_is_no_line(answer: Answer, profile: Callable[..., None], tmp_path: Path) -> None:
    profile(RAN)
    with pytest.raises(WorkshopError, match="'four' is no answer to this; it takes the number of a line"):
        answer("four")
    wrong = answer("line 5")
    assert [*map(str, wrong.reasons)] == ["line 5 did not run in main"]
    assert wrong.next.commands == ("workshop lines train.py.lprof", "workshop check part2 --answer ANSWER")
    (tmp_path / "train.py.lprof").write_bytes(b"no profile")
    os.utime(tmp_path / "train.py.lprof")
    with pytest.raises(WorkshopError, match=r"train\.py\.lprof is not a line profile"):
        answer("4")


def test_a_right_answer_is_remembered(answer: Answer, profile: Callable[..., None], tmp_path: Path) -> None:
    profile(RAN)
    assert answer("4").outcome is Outcome.DONE
    known = State(tmp_path).get("parts", "part2")
    assert (known["answer"], known["done"], known["last"]) == ("4", True, "done")
    assert answer("1").outcome is Outcome.NOT_YET
    assert State(tmp_path).get("parts", "part2", "answer") == "4", "a wrong one is not"


def test_a_line_that_waits_for_another_line_is_told_so(answer: Answer, data: Path, tmp_path: Path) -> None:
    """The head of the loop is on the stack all the time, and the innermost line is asked for."""
    lines = (tmp_path / "train.py").read_text().splitlines()
    slept, loop = (
        next(number for number, line in enumerate(lines, 1) if text in line)
        for text in ("time.sleep(self.wasted_time)", "for images, targets in batches:")
    )
    recorded = tmp_path / "py-spy-outputs" / "profile.raw"
    recorded.parent.mkdir()
    item = f"CustomSlowDataset.__getitem__ (train.py:{slept})"
    recorded.write_text(f'process 7:"python train.py";main (train.py:{loop});{item} 90\n')

    told: list[str] = []

    def says(number: int) -> Verdict:
        return checks.check(find_part("part7"), tmp_path / "train.py", data, say=told.append, ask=given(str(number)))

    assert says(slept).outcome is Outcome.DONE
    assert told == ["reading the recordings of train.py"], "a large one takes seconds"
    load_beside.keep(OtherLoad(2, 1.5), recorded)
    busy = str(says(slept).reasons[-1])
    assert busy.startswith("Busy machine: other programs used 1.5 of 2 cores meanwhile.")
    load_beside.keep(OtherLoad(2, 0.0), recorded)
    wrong = says(loop)
    look = "workshop py-spy-report --user-code --file py-spy-outputs/profile.raw"
    assert str(wrong.next) == f"{look}\nworkshop check part7 --answer ANSWER"
    waits = f"in 90 samples, line {loop} waits for a line that it calls: answer with the innermost line of train.py"
    assert [*map(str, wrong.reasons)] == [waits]
    assert [*map(str, says(slept).reasons)] == [
        f"line {slept} has 90 of the 90 samples in functions of train.py: time.sleep(self.wasted_time)",
    ], "the report counts them, too"
    (tmp_path / "train.py").write_text("\n".join([*lines, "# changed"]))
    os.utime(recorded)
    assert labels(says(loop).reasons) == ["line-waits-for-line", "line-script-changed"]


def test_a_right_answer_is_not_enough_where_a_change_is_asked_for(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was recorded of another script does not count, and of two recordings the newest does."""
    monkeypatch.chdir(tmp_path)
    part, script = find_part("part9"), tmp_path / "lattice.py"
    shutil.copy(part.untouched, script)
    lines = [line.strip() for line in script.read_text().splitlines()]
    wrong, right = (lines.index(each) + 1 for each in (part.question.wrong, part.question.right))  # type: ignore[union-attr]
    recorded = tmp_path / "py-spy-outputs"
    recorded.mkdir()

    def record(name: str, of: str, *samples: str) -> None:
        (recorded / name).write_text("".join(f'process 7:"python {of}";{each}\n' for each in samples))

    def says(number: int) -> list[str]:
        verdict = checks.check(part, script, data, say=lambda _: None, ask=given(str(number)))
        assert verdict.outcome is Outcome.NOT_YET
        return labels(verdict.reasons)

    record("profile.raw", "train.py", "main (train.py:3) 50")
    assert says(right)[0] == "line-no-recording-of-untouched"
    record("profile-2.raw", "lattice.py", f"main (lattice.py:{wrong}) 10", f"main (lattice.py:{right}) 50")
    assert "line-another-takes-more" in says(wrong)
    assert {"check-answer-right", "check-nothing-changed"} <= set(says(right))
