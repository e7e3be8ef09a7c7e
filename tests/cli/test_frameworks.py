"""`workshop measure` wherever people train: the planted sleep is what it finds first."""

import json
from pathlib import Path

import pytest
from conftest import Run

FRAMEWORKS = Path(__file__).parents[1] / "frameworks"


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(FRAMEWORKS.glob("*.py")), ids=lambda path: path.stem)
def test_the_sleep_is_the_first_finding(script: Path, workshop: Run) -> None:
    torchrun = ["torchrun", "--nproc_per_node=2"] if script.stem == "with_ranks" else []
    done = workshop("measure", "--json", "--seconds", "4", "--no-headroom", *torchrun, script)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    first = found["findings"][0]
    assert "time.sleep" in script.read_text().splitlines()[first["line"] - 1]
    assert first["file"] == str(script)
    if torchrun:
        assert (first["cause"], first["phase"], first["process"]) == ("slow-rank", "data wait", "rank 1")
        waits = {each["rank"]: each["waits_ms"] for each in found["ranks"]}
        assert waits[0] > 10 * waits[1]
