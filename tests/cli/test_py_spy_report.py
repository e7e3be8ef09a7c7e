"""`workshop py-spy-report` and `workshop flamegraph` as they are typed."""

import csv
import io
import json
import re
import sys
from pathlib import Path

import pexpect
import pytest
from conftest import Run

from workshop.cli.py_spy_commands import as_text
from workshop.profiles import py_spy_report, stacks

RECORDED = """\
process 7:"python train.py";<module> (train.py:9);main (train.py:5);Module._call_impl (torch/nn/modules/module.py:1);conv2d (torch/nn/functional.py:3) 50
process 7:"python train.py";<module> (train.py:9);again (train.py:7);Module._call_impl (torch/nn/modules/module.py:1);conv2d (torch/nn/functional.py:3) 10
process 7:"python train.py";<module> (train.py:9);main (train.py:6);backward (torch/_tensor.py:3) 25
process 7:"python train.py";process 8:"";_worker_loop (torch/utils/data/_utils/worker.py:3);Pets.__getitem__ (train.py:2) 10
process 7:"python train.py";<module> (train.py:9) 5
"""  # noqa: E501
COLUMNS = [*py_spy_report.COLUMNS, "samples"]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "profile.raw"
    path.write_text(RECORDED)
    return path


def report(workshop: Run, *options: str | Path) -> list[dict[str, str | int]]:
    done = workshop("py-spy-report", "--json", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (list(found), found["schema_version"]) == (["schema_version", "rows"], 1)
    return found["rows"]


def test_the_rows_as_json_and_csv(recording: Path, workshop: Run) -> None:
    rows = report(workshop, "--file", recording)
    assert [list(row) for row in rows] == [COLUMNS] * 4
    first = ["conv2d", "torch/nn/functional.py", 3, "main", "train.py", "5", "52.63% (50)", 50]
    assert rows[0] == dict(zip(COLUMNS, first, strict=True))
    assert [row["samples"] for row in rows] == [50, 25, 10, 10], "a stack of modules alone is left out"
    written = io.StringIO(workshop("py-spy-report", "--csv", recording).stdout)
    assert list(csv.DictReader(written)) == [{key: str(value) for key, value in row.items()} for row in rows]


def test_its_switches(recording: Path, workshop: Run) -> None:
    assert len(report(workshop, recording, "--num-rows", "2")) == 2
    assert report(workshop, recording, "--module-frames")[-1]["library_function_name"] == "<module>"
    named = report(workshop, recording, "--library-name", "torch", "--aggregate-leaf-paths")
    assert (named[0]["library_function_path"], named[0]["samples"]) == ("torch/nn/functional.py", 60)
    own = {(row["name"], row["line"]): row["samples"] for row in report(workshop, recording, "--user-code")}
    in_functions = {("main", 5): 50, ("main", 6): 25, ("again", 7): 10, ("Pets.__getitem__", 2): 10}
    assert own == in_functions | {("<module>", 9): 5}, "the body of the script is one's own, too"
    rows = report(workshop, recording, "--total", "--num-rows", "all")
    total = {(row["name"], row["line"], row["library_function_name"]): row["samples"] for row in rows}
    assert total["Module._call_impl", 1, "main"] == 50
    assert total["Module._call_impl", 1, "again"] == 10
    assert total["main", 6, "main"] == 25


def test_own_code_is_that_of_the_recorded_script(recording: Path, workshop: Run) -> None:
    recording.write_text(RECORDED.replace("train.py", "mine.py"))
    assert {row["library_function_path"] for row in report(workshop, recording)} == {"mine.py"}
    assert "no path contains other.py" in workshop("py-spy-report", recording, "--library-name", "other.py").stderr


def test_a_loop_outside_of_functions_is_the_scripts(recording: Path, workshop: Run) -> None:
    """As in many scripts; who names a library gets the rules of itwinai, which skip the bodies of modules."""
    recording.write_text(
        "<module> (train.py:9);Module._call_impl (torch/nn/modules/module.py:1);forward (model.py:4) 50\n"
        "<module> (train.py:9);helper (train.py:3);backward (torch/_tensor.py:3) 20\n"
        "<module> (train.py:2);<module> (torch/__init__.py:8);load (torch/__init__.py:5) 10\n"
    )
    for switch in ("--self", "--total"):
        rows = report(workshop, recording, switch)
        led = {row["name"]: (row["library_function_name"], row["library_function_line"]) for row in rows}
        expected = {"forward": ("<module>", "9"), "backward": ("helper", "3"), "load": ("<module>", "2")}
        assert {name: led[name] for name in expected} == expected
    named = report(workshop, recording, "--library-name", "train.py")
    assert [row["library_function_name"] for row in named] == ["Not Found", "helper", "Not Found"]


def test_who_it_was(recording: Path, workshop: Run) -> None:
    rows = report(workshop, recording, "--by", "process")
    samples = {row["process"]: row["samples"] for row in rows if row["name"] in ("backward", "Pets.__getitem__")}
    assert samples == {"7 python train.py": 25, "8 DataLoader worker": 10}
    assert [row["proportion (n)"] for row in rows if row["process"] == "8 DataLoader worker"] == ["100.00% (10)"]
    for by in ("thread", "rank"):
        done = workshop("py-spy-report", recording, "--by", by)
        assert done.returncode == 2
        assert f"does not tell one {by} from another; record with" in done.stderr
    recording.write_text(RECORDED.replace('7:"python', '7:"RANK=3 python'))
    assert {row["rank"] for row in report(workshop, recording, "--by", "rank")} == {"rank 3"}


def test_what_misleads_is_said(recording: Path, workshop: Run) -> None:
    recording.write_text(RECORDED + "main (train.py:5);conv")
    done = workshop("py-spy-report", "--file", recording)
    assert done.returncode == 0
    assert "1 line skipped" in done.stderr
    assert "5 of 100 samples were in no function" in done.stderr
    assert "10 of 100 samples are of 1 DataLoader worker; --by process tells them apart" in done.stderr
    names = [line.split(" | ")[0].strip() for line in done.stdout.splitlines()[2:]]
    assert names == ["conv2d", "backward", "Pets.__getitem__", "conv2d"]


def test_two_recordings(recording: Path, workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "after.raw").write_text(RECORDED.replace(" 50\n", " 5\n").replace("train.py:9", "train.py:12"))
    done = workshop("py-spy-report", "--diff", recording, "after.raw", "--json")
    row = {"change": -45, "before": 60, "after": 15, "name": "conv2d", "path": "torch/nn/functional.py"}
    assert json.loads(done.stdout) == {"schema_version": 1, "rows": [row]}
    table = workshop("py-spy-report", "--diff", recording, "after.raw")
    assert re.search(r"-45 \| 60.00% \(60\) \| 27.27% \(15\) \| conv2d +\| torch/nn/functional.py", table.stdout)
    assert "100 samples before, 55 after" in table.stderr


def test_a_terminal_of_80_columns_gets_two_lines_a_row(recording: Path) -> None:
    rows = py_spy_report.leaves(stacks.read(recording), "train.py").rows
    narrow = as_text(rows, 80).splitlines()
    assert max(map(len, narrow)) <= 80
    assert narrow[0] == " 52.63%      50  conv2d  torch/nn/functional.py:3"
    assert narrow[1] == "                   of main  train.py:5"
    assert as_text(rows, 200).splitlines()[0].split(" | ")[0].strip() == "name"


def test_in_a_real_terminal(recording: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -m workshop py-spy-report --file profile.raw"
    said, code = pexpect.run(command, cwd=str(tmp_path), dimensions=(24, 80), withexitstatus=True, encoding="utf-8")
    assert code == 0
    assert max(map(len, said.splitlines())) <= 80
    assert "of main  train.py:5" in said


def test_a_flame_graph_is_one_file(recording: Path, workshop: Run, tmp_path: Path) -> None:
    done = workshop("flamegraph", "--file", recording)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "flamegraph.html shows 100 samples. Open it in a browser.\n"
    page = (tmp_path / "flamegraph.html").read_text()
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    compared = workshop("flamegraph", "--diff", recording, recording, "-o", "compared.svg")
    assert compared.returncode == 0, compared.stderr
    assert (tmp_path / "compared.svg").is_file()
