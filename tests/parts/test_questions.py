"""The parts that ask a question: a missing profile, a stale one, a wrong answer, the right one."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run

from workshop import judge, selftest
from workshop.errors import WorkshopError
from workshop.harness.verdict import Outcome, Verdict
from workshop.parts import find_part
from workshop.state import State


def test_a_question(data: Path, tmp_path: Path) -> None:
    """As the selftest tries it; the other parts it tries itself."""
    trials = list(selftest.questions(find_part("part4"), tmp_path, data))
    assert [trial for trial in trials if not trial.passed] == []
    tried = {trial.what.partition(", ")[2] for trial in trials}
    assert tried == {"no answer", "without a profile", "a wrong answer", "the right answer", "a stale profile"}


@pytest.fixture
def answered(project: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    """The verdict on an answer to part 2, with the test's own folder as that of the script and of the terminal."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(project / "train.py", tmp_path)

    def answer(text: str, script: str = "train.py") -> Verdict:
        return judge.check(find_part("part2"), tmp_path / script, data, say=lambda _: None, ask=lambda _: text)

    return answer


def test_a_profile_of_another_file_is_named(answered: Callable[..., Verdict], run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.py").write_text("from line_profiler import profile\n@profile\ndef main():\n    pass\nmain()")
    assert run("-m", "kernprof", "-l", other / "train.py").returncode == 0
    verdict = answered("1")
    assert verdict.outcome is Outcome.NOT_YET
    assert verdict.reasons[0].endswith(f"does not cover main of {tmp_path}/train.py; it was taken of {other}/train.py")

    # Beside the other one it counts, though kernprof was run elsewhere.
    assert answered("4", "other/train.py").outcome is Outcome.DONE


def test_a_function_that_never_ran(answered: Callable[..., Verdict], run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from line_profiler import profile\n@profile\ndef main():\n    pass\n")
    assert run("-m", "kernprof", "-l", "train.py").returncode == 0
    assert "main has 0 hits in train.py.lprof" in answered("4").reasons[0]


def test_an_answer_that_is_no_line(answered: Callable[..., Verdict], run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from line_profiler import profile\n@profile\ndef main():\n    pass\nmain()")
    assert run("-m", "kernprof", "-l", "train.py").returncode == 0
    with pytest.raises(WorkshopError, match="'four' is not the number of a line"):
        answered("four")
    assert answered("5").reasons == ("line 5 did not run in main",)
    (tmp_path / "train.py.lprof").write_bytes(b"no profile")
    os.utime(tmp_path / "train.py.lprof")
    with pytest.raises(WorkshopError, match=r"train\.py\.lprof is not a line profile"):
        answered("4")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["part2"], "part2 asks: In which line"),
        (["part2", "--json"], "part2 asks: In which line"),
        (["--all"], "part1 asks: While the script trains"),
        (["part1", "--answer", "perhaps"], "'perhaps' is no answer to this; choose one of cpu, gpu, none"),
        (["part3", "--answer", "1"], "part3 asks no question"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, run: Run, project: Path, tmp_path: Path) -> None:
    shutil.copy(project / "train.py", tmp_path)
    done = run("-m", "workshop", "check", *arguments)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_right_answer_is_remembered(answered: Callable[..., Verdict], run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from line_profiler import profile\n@profile\ndef main():\n    pass\nmain()")
    assert run("-m", "kernprof", "-l", "train.py").returncode == 0
    assert answered("4").outcome is Outcome.DONE
    known = State(tmp_path).get("parts", "part2")
    assert (known["answer"], known["done"], known["last"]) == ("4", True, "done")
    assert answered("1").outcome is Outcome.NOT_YET
    assert State(tmp_path).get("parts", "part2", "answer") == "4", "a wrong one is not"
