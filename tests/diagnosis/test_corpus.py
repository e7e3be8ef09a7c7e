"""The corpus of slow scripts is complete; `benchmarks/diagnosis.py` tries them."""

import difflib
import tomllib
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[2] / "benchmarks" / "slow"
PLANTED = tomllib.loads((CORPUS / "planted.toml").read_text())

MOST_CHANGED = 24
"""A twin differs in no more lines: it does the same work."""


def test_each_script_has_its_fault_and_its_twin() -> None:
    assert len(PLANTED) >= 40
    assert len(list((CORPUS / "healthy").glob("*.py"))) >= 15
    for folder in (CORPUS, CORPUS / "mended"):
        assert {path.stem for path in folder.glob("*.py")} == PLANTED.keys()


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_line_is_one_line_and_is_mended(name: str) -> None:
    slow, mended = (folder.joinpath(f"{name}.py").read_text().splitlines() for folder in (CORPUS, CORPUS / "mended"))
    assert sum(PLANTED[name]["line"] in line for line in slow) == 1
    assert PLANTED[name]["why"].endswith(".")
    changed = [line for line in difflib.unified_diff(slow, mended, n=0, lineterm="") if line[:3] not in ("---", "+++")]
    assert 0 < sum(line[0] in "+-" for line in changed) <= MOST_CHANGED
