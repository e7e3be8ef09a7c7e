"""`workshop trace --diff`, as it is typed."""

import csv
import io
import json
from pathlib import Path

import pytest
from conftest import Run
from made_traces import a_step, event, write

from workshop.cli.trace_text import difference_text
from workshop.traces.comparison import TABLES, compare
from workshop.traces.trace_files import load


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The folders before and after, of two ranks each, in which an operator with a long name is gone."""
    for name, extra in (("before", 40), ("after", 0)):
        (tmp_path / name).mkdir()
        for rank in range(2):
            events = []
            for step in range(6):
                events += a_step(step, 1000 * step, work=100 + step % 2 + extra)
                if extra:
                    events.append(event("cpu_op", "aten::long" * 20, 1000 * step + 96, extra))
            trace = {"distributedInfo": {"rank": rank}, "traceEvents": events}
            write(tmp_path / name / f"rank{rank}.json", trace)
    return tmp_path


def test_words_come_first_then_tables(runs: Path, workshop: Run) -> None:
    done = workshop("trace", "--diff", "before", "after")
    assert (done.returncode, done.stderr) == (0, "")
    words, _, tables = done.stdout.partition("What the thread that trains did")
    assert words.startswith("A step takes 0.101 ms instead of 0.141 ms, a speedup of 1.40x (0.0400 ms less, ")
    assert "Gone operators" in words
    assert "data wait" in tables
    assert "Self time" not in tables
    operators = workshop("trace", "--diff", "before", "after", "--tables", "operators").stdout
    assert "no operator: data wait" in operators
    assert "gone" in operators
    only = workshop("trace", "--diff", "before", "after", "--tables", "phases").stdout
    assert only.startswith("What the thread that trains did")
    assert "Self time" not in only
    assert "nothing of this" in workshop("trace", "--diff", "before", "after", "--tables", "kernels").stdout


def test_no_line_of_a_table_is_wider_than_a_terminal_of_80_columns(runs: Path) -> None:
    found = compare(*(load([runs / name]) for name in ("before", "after")))
    for table in ("phases", "operators", "annotations"):
        assert max(map(len, difference_text(found, [table], 80).splitlines()), default=0) <= 80
    assert "aten::longat…" in difference_text(found, ["operators"], 80)


def test_a_run_against_itself(runs: Path, workshop: Run) -> None:
    for path in ("before", "before/rank0.json"):
        assert workshop("trace", "--diff", path, path).stdout.startswith("No difference beyond noise: ")


def test_json_and_csv(runs: Path, workshop: Run) -> None:
    found = json.loads(workshop("trace", "before", "after", "--diff", "--json").stdout)
    assert found["schema_version"] == 1
    assert [each["rank"] for each in found["before"]] == [0, 1]
    assert (found["by_step"], found["steps"]) == (True, {"before": 5, "after": 5})
    assert found["sentences"][0].startswith("A step takes")
    for name in ("phases", "operators"):
        change = sum(row["difference(us)"] for row in found[name])
        assert change == pytest.approx(found["step"]["difference(us)"])
    assert set(TABLES) < set(found)
    done = workshop("trace", "--diff", "before", "after", "--tables", "operators", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["name"] for row in rows] == [row["name"] for row in found["operators"]]
    assert set(rows[0]) == set(found["operators"][0])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["before"], "takes two traces, or two folders of them: BEFORE AFTER"),
        ([], "takes two traces"),
        (["before", "before", "after"], "takes two traces"),
        (["before", "nowhere"], "there is no file nowhere"),
        (["before", "note.txt"], "note.txt is no trace"),
        (["before", "empty"], "there is no trace in empty"),
        (["before", "after", "--tables", "idle"], "is one or more of phases, operators, kernels, annotations, streams"),
        (["before", "after", "--csv"], "name it with --tables"),
        (["before", "after", "--hta-compat", "--json"], "not with --diff"),
        (["before", "after", "--html", "page.html", "--json"], "goes with no other choice"),
    ],
)
def test_wrong_use_is_said_in_a_line(arguments: list[str], says: str, runs: Path, workshop: Run) -> None:
    (runs / "note.txt").write_text("{}")
    (runs / "empty").mkdir()
    done = workshop("trace", "--diff", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
