"""`workshop trace`, as it is typed."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from conftest import Run
from made_traces import made_up

from workshop.profiles.traces import hta, load
from workshop.profiles.traces.tables import ANALYSES


@pytest.fixture
def prof(tmp_path: Path) -> Path:
    """A folder with the traces of two ranks."""
    folder = tmp_path / "prof"
    folder.mkdir()
    for rank in range(2):
        trace = made_up(rank + 4) | {"distributedInfo": {"rank": rank}}
        (folder / f"rank{rank}.pt.trace.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    return folder


def test_tables_and_what_it_costs(prof: Path, workshop: Run) -> None:
    done = workshop("trace", prof)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for title in ("Where the time of each device goes", "Why each stream is idle", "Operators by", "What it costs"):
        assert title in done.stdout
    costs = done.stdout.partition("What it costs")[2].splitlines()[2:]
    shares = [int(line.split("%")[0]) for line in costs]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("only", ANALYSES)
def test_one_table(only: str, prof: Path, workshop: Run) -> None:
    done = workshop("trace", prof, "--only", only, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema_version"] == 1
    assert [each["rank"] for each in found["traces"]] == [0, 1]
    done = workshop("trace", prof, "--only", only, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == len(found[only])
    assert set().union(*found[only]) == set(rows[0])
    assert {row["rank"] for row in rows} <= {"0", "1"}


def test_the_numbers_of_holistic_trace_analysis(prof: Path, workshop: Run) -> None:
    done = workshop("trace", "--hta-compat", "--json", *sorted(prof.iterdir()))
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert list(found) == [
        "temporal_breakdown",
        "idle_time_breakdown",
        "comm_comp_overlap",
        "cuda_kernel_launch_stats",
        "gpu_kernel_breakdown",
    ]
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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.json"], "there is no file missing.json"),
        (["empty.json"], "empty.json is empty"),
        (["folder"], "there is no trace in folder"),
        (["prof", "--only", "nothing"], "is one of temporal, idle"),
        (["prof", "--csv"], "name it with --only"),
        (["prof", "--hta-compat"], "goes with --json"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, prof: Path, workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "folder").mkdir()
    done = workshop("trace", *arguments)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_damage_is_named_beside_what_could_be_read(prof: Path, workshop: Run) -> None:
    path = prof / "rank0.pt.trace.json.gz"
    path.write_bytes(path.read_bytes()[:-200])
    done = workshop("trace", prof)
    assert done.returncode == 0
    assert "ends too early" in done.stderr
    assert "Where the time of each device goes" in done.stdout
