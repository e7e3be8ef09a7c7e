"""`workshop trace`, as it is typed."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from conftest import Run
from made_traces import made_up

from workshop.cli.trace_text import MORE_TABLES, tables_text
from workshop.traces import hta
from workshop.traces.by_line import NO_STACKS
from workshop.traces.tables import TABLES, tables
from workshop.traces.trace_files import load


@pytest.fixture
def prof(tmp_path: Path) -> Path:
    """A folder with the traces of two ranks."""
    folder = tmp_path / "prof"
    folder.mkdir()
    for rank in range(2):
        trace = made_up(rank + 4) | {"distributedInfo": {"rank": rank}}
        (folder / f"rank{rank}.pt.trace.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    return folder


def test_words_come_first_and_then_the_tables_that_they_rest_on(prof: Path, workshop: Run) -> None:
    done = workshop("trace", prof)
    assert (done.returncode, done.stderr) == (0, "")
    words, *tables, more = done.stdout.strip().split("\n\n")
    assert (words, more) == ("What it costs, of the whole time", MORE_TABLES)
    costs = tables.pop(0).splitlines()
    shares = [int(line.split("%")[0]) for line in costs if "%" in line[:4]]
    assert shares == sorted(shares, reverse=True)
    assert "(parts 3 to 5)" in costs[0]
    assert [tables[0], tables[2]] == [TABLES["idle"].title, TABLES["path_operators"].title]
    everything = workshop("trace", prof, "--tables", "all").stdout
    assert "What it costs" not in everything
    assert all(TABLES[name].title in everything for name in ("temporal", "operators", "held"))


@pytest.mark.parametrize("only", TABLES)
def test_one_table(only: str, prof: Path, workshop: Run) -> None:
    done = workshop("trace", prof, "--tables", only, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema_version"] == 1
    assert [each["rank"] for each in found["traces"]] == [0, 1]
    done = workshop("trace", prof, "--tables", only, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == len(found[only])
    assert set().union(*found[only]) == set().union(*rows)
    assert {row["rank"] for row in rows} <= {"0", "1"}


def test_by_line(prof: Path, workshop: Run) -> None:
    done = workshop("trace", prof, "--by", "line")
    assert done.returncode == 0
    assert done.stdout == workshop("trace", prof, "--tables", "lines").stdout
    assert " ".join(done.stderr.split()) == NO_STACKS
    for more in (("--by=thread",), ("--by=line", "--tables=idle"), ("--by=line", "--diff", prof)):
        assert workshop("trace", prof, *more).returncode == 2


def test_the_numbers_of_holistic_trace_analysis(prof: Path, workshop: Run) -> None:
    done = workshop("trace", "--hta-compat", "--json", *sorted(prof.iterdir()))
    assert done.returncode == 0
    found = json.loads(done.stdout)
    breakdowns = ["temporal_breakdown", "idle_time_breakdown", "comm_comp_overlap"]
    assert list(found) == [*breakdowns, "cuda_kernel_launch_stats", "gpu_kernel_breakdown"]
    assert found == json.loads(json.dumps(hta.analyses(hta.by_rank(load([prof])))))


def test_an_analysis_that_cannot_run_is_null(workshop: Run, tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    (tmp_path / "cpu.json").write_text(json.dumps({"traceEvents": [event]}))
    done = workshop("trace", "--hta-compat", "--json", "cpu.json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert (found["temporal_breakdown"], found["idle_time_breakdown"]) == (None, None)
    assert found["comm_comp_overlap"] == [{"rank": 0, "comp_comm_overlap_pctg": None}]
    assert "aten::add" in workshop("trace", "cpu.json").stdout


OF_OTHERS = {
    "the profiler of torch before 1.8": [
        {"ph": "X", "name": "add", "ts": 100.0, "dur": 9.0, "tid": 1, "pid": "CPU functions", "args": {}}
    ],
    "DevTools": [{"ph": "X", "cat": "devtools.timeline", "name": "RunTask", "ts": 1, "dur": 2, "pid": 1, "tid": 1}],
    "viztracer": [{"ph": "X", "cat": "FEE", "name": "main (x.py:1)", "ts": 1, "dur": 2, "pid": 1, "tid": 1}],
}


@pytest.mark.parametrize("program", OF_OTHERS)
def test_a_trace_of_another_program_is_no_all_clear(program: str, workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": OF_OTHERS[program]}))
    done = workshop("trace", "t.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "t.json is no trace of torch.profiler: no operator, kernel, copy or step is in it" in done.stderr


def test_damage_is_named_beside_what_could_be_read(prof: Path, workshop: Run) -> None:
    path = prof / "rank0.pt.trace.json.gz"
    path.write_bytes(path.read_bytes()[:-200])
    done = workshop("trace", prof)
    assert done.returncode == 0
    assert "ends too early" in done.stderr
    assert "What it costs" in done.stdout


@pytest.mark.parametrize("ranks", [1, 2])
def test_no_line_is_wider_than_a_terminal_of_80_columns(ranks: int, tmp_path: Path) -> None:
    """However long the names of operators and kernels are."""
    for rank in range(ranks):
        trace = made_up(rank + 16) | {"distributedInfo": {"rank": rank}}
        for event in trace["traceEvents"]:
            if event.get("cat") in ("cpu_op", "kernel"):
                event["name"] += "_and_so_on" * 20
        (tmp_path / f"rank{rank}.pt.trace.json").write_text(json.dumps(trace))
    traces = load([tmp_path])
    text = tables_text(tables(traces), ranks > 1, 80)
    assert max(map(len, text.splitlines())) == 80, "names take the room that there is"
    assert [name for name, table in TABLES.items() if table.title not in text] == ["stragglers"] * (ranks == 1)
