"""`workshop measure` wherever people train: the planted sleep is what it finds first."""

import json
from pathlib import Path

import pytest
from conftest import Run

FRAMEWORKS = Path(__file__).parents[1] / "frameworks"


def mark(script: Path) -> pytest.MarkDecorator:
    """Return the mark: two ranks, and a script without a DataLoader, stand for the others in the tests of a change."""
    return pytest.mark.slow if script.stem in ("with_ranks", "with_get_batch") else pytest.mark.acceptance


@pytest.mark.parametrize(
    "script", [pytest.param(each, marks=mark(each), id=each.stem) for each in sorted(FRAMEWORKS.glob("*.py"))]
)
def test_the_sleep_is_the_first_finding(script: Path, workshop: Run) -> None:
    torchrun = ["torchrun", "--nproc_per_node=2"] if script.stem == "with_ranks" else []
    done = workshop("measure", "--json", "--seconds", "2", "--no-headroom", *torchrun, script)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    first = found["findings"][0]
    assert "time.sleep" in script.read_text().splitlines()[first["line"] - 1]
    assert first["file"] == str(script)
    if torchrun:
        assert (first["cause"], first["phase"], first["process"]) == ("slow-rank", "data wait", "rank 1")
        waits = {each["rank"]: each["waits_ms"] for each in found["ranks"]}
        assert waits[0] > waits[1]
