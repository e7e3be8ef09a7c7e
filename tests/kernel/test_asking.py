"""The words behind a magic, read as the commands read theirs, before anything runs."""

from pathlib import Path

import pytest

from workshop.errors import WorkshopError
from workshop.kernel.asking import Asking, asked


def asked_of(name: str, words: str, folder: Path, of_cell: bool = False) -> Asking:
    found = asked(name, words.split(), folder, of_cell)
    assert found
    return found


def test_options_end_where_the_script_begins(tmp_path: Path) -> None:
    found = asked_of("measure", "--no-headroom --seconds=3 --format github --format sarif train.py --json x", tmp_path)
    assert found.script == ["train.py", "--json", "x"]
    assert found.words() == ["--seconds", "3.0", "--no-headroom", "--format", "github", "--format", "sarif"]
    assert found.words(save="x.json")[3:5] == ["--save", "x.json"]
    assert asked_of("memory", "-m pets.train --all", tmp_path).script == ["-m", "pets.train", "--all"]


def test_lines_has_the_options_of_both_commands(tmp_path: Path) -> None:
    found = asked_of("lines", "--only main --all --by process -o out/ -m tool --all 3", tmp_path)
    assert found.script == ["-m", "tool", "--all", "3"]
    assert found.title == "-m tool"
    assert asked_of("lines", "torchrun --nproc_per_node 2 train.py --all x.py", tmp_path).title == "train.py"
    assert asked_of("lines", "-m", tmp_path).script == []
    assert found.words() == ["-o", "out/", "--only", "main"]
    assert found.view == {"everything": True, "by": "process"}
    assert not found.here
    assert asked_of("lines", "--here --function main", tmp_path, of_cell=True).here


@pytest.mark.parametrize(
    ("name", "words", "of_cell", "says"),
    [
        ("measure", "--secnds 3", True, "No such option.*--secnds.*--seconds"),
        ("measure", "--secnds 3 train.py", False, "No such option.*--secnds.*--seconds"),
        ("measure", "--seconds soon", True, "Invalid value for '--seconds'"),
        ("measure", "train.py", True, "unexpected extra argument"),
        ("lines", "--top 1", True, "No such option.*--top"),
        ("measure", "--html", True, "'--html' requires an argument"),
        ("lines", "-m", True, "No such option.*-m"),
        ("lines", "--by rank", True, "--by takes process, not rank"),
        ("lines", "--diff a b", False, "No such option.*--diff"),
        ("memory", "--cells x", True, "x names no cells"),
        ("memory", "--save nowhere/values.json", True, "there is no folder nowhere"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(name: str, words: str, of_cell: bool, says: str, tmp_path: Path) -> None:
    with pytest.raises(WorkshopError, match=says) as error:
        asked(name, words.split(), tmp_path, of_cell)
    assert "\n" not in str(error.value)


def test_a_file_that_could_be_written_is_not_left_behind(tmp_path: Path) -> None:
    (old := tmp_path / "old.html").write_text("kept")
    for name in ("new.html", "old.html"):
        asked_of("measure", f"--html {tmp_path / name}", tmp_path, of_cell=True)
    assert [each.name for each in tmp_path.iterdir()] == ["old.html"]
    assert old.read_text() == "kept"


def test_help_is_printed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("lines", ["--help"], tmp_path) is None
    printed = capsys.readouterr().out
    assert printed.startswith("Usage: %lines [OPTIONS]")
    assert all(option in printed for option in ("--only", "--function", "--here", "-m"))
