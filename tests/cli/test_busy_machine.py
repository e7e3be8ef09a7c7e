"""On a machine that another program keeps busy, all instruments say so in the same words."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Run

from workshop.runs.other_load import OtherLoad, Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the figures are not known")

SENTENCE = re.compile(
    r"Busy machine: other programs used \d\.\d of \d+ cores? meanwhile, above all python\S* [\w.]+ \(process \d+\)\. "
    r"On a quiet machine these times are shorter\."
)

TRAINS = """
import time, torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
end = time.monotonic() + 4
while time.monotonic() < end:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def test_line_profiles_remember_it(workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = OtherLoad(2, 1.2, (Program("python elsewhere.py", 7, 99.0),))
    monkeypatch.setattr("workshop.runs.other_load.LoadMeter._measured", lambda _: load)
    (tmp_path / "trains.py").write_text("total = 0\nfor each in range(10):\n    total += each\n")
    recorded = workshop("record", "lines", "--", "trains.py")
    (said,) = SENTENCE.findall(recorded.stderr)
    assert said == str(load)
    assert said in workshop("lines").stderr
    assert json.loads(workshop("lines", "--json").stdout)["machine"] == load.as_dict()
    compared = workshop("lines", "--diff", "trains.py.lprof", "trains.py.lprof").stdout
    assert f"trains.py.lprof: {said}" in compared


@pytest.fixture
def _busy(tmp_path: Path) -> Iterator[None]:
    """A program that keeps a core busy, and does not belong to what is measured."""
    (tmp_path / "elsewhere.py").write_text("while True: pass")
    (tmp_path / "trains.py").write_text(TRAINS)
    with subprocess.Popen([sys.executable, str(tmp_path / "elsewhere.py")]) as process:
        yield
        process.kill()


@pytest.mark.acceptance
@pytest.mark.usefixtures("_busy")
def test_a_measurement_says_it_first(run: Run, tmp_path: Path) -> None:
    options = ("--seconds", "1", "--no-headroom", "--save", "found.json", "--html", "page.html")
    printed = run("-m", "workshop", "measure", *options, "trains.py").stdout
    (said,) = SENTENCE.findall(printed)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["notes"][0] == said
    assert found["machine"]["busy"]
    assert found["machine"]["other_cores"] > 0.5
    assert said in (tmp_path / "page.html").read_text()


@pytest.mark.acceptance
@pytest.mark.usefixtures("_busy")
def test_other_recorders_and_verdicts_say_it(run: Run, tmp_path: Path) -> None:
    for recorder, look in (
        (("py-spy", "--", sys.executable), ("flamegraph", "--output", "page.html")),
        (("torch", "--"), ("trace", "--html", "page.html")),
    ):
        (said,) = SENTENCE.findall(run("-m", "workshop", "record", *recorder, "trains.py").stderr)
        assert said in run("-m", "workshop", *look).stderr
        assert said in (tmp_path / "page.html").read_text(), "the recording remembers it"
    (tmp_path / "endless.py").write_text(TRAINS.replace("4\n", "4000\n"))
    done = run("-m", "workshop", "compare", "--json", "endless.py", "endless.py")
    assert json.loads(done.stdout)["machine"]["busy"]
    assert re.search(
        r"Other programs use \d\.\d of \d+ cores?, above all python\S* [\w.]+ \(process \d+\): ", done.stderr
    )
