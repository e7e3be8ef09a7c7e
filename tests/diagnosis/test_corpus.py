"""The corpus of slow scripts is complete; `benchmarks/diagnosis.py` tries them, and part 11 hands some of them out."""

import difflib
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from workshop.parts import find_part
from workshop.parts.case import case_names, find_case

SLOW = Path(__file__).parents[2] / "benchmarks" / "slow"
PLANTED = tomllib.loads((SLOW / "planted.toml").read_text())
CASES = {name: find_case(find_part("part11"), name) for name in case_names(find_part("part11"))}

MAX_CHANGED = 24
"""A twin differs in no more lines: it does the same work."""


def changed(slow: Path, fixed: Path) -> int:
    both = (path.read_text().splitlines() for path in (slow, fixed))
    lines = [line for line in difflib.unified_diff(*both, n=0, lineterm="") if line[:3] not in ("---", "+++")]
    return sum(line[0] in "+-" for line in lines)


def test_the_readme_counts_what_there_is() -> None:
    readme, others = (SLOW.parent / "README.md").read_text(), [SLOW.parent / "unseen", SLOW.parent / "blind"]
    there_are = re.search(
        r"There are (\d+): (\d+) in\s\[`slow/`\]\(slow\), (\d+) in \[`unseen/`\]\(unseen\), (\d+) in "
        r"\[`blind/`\]\(blind\), and the (\d+) of part 11",
        readme,
    )
    assert there_are
    counts = [len(PLANTED), *(len(tomllib.loads((each / "planted.toml").read_text())) for each in others), len(CASES)]
    assert list(map(int, there_are.groups())) == [sum(counts), *counts]
    healthy = [path for each in (SLOW, *others) for path in (each / "healthy").glob("*.py")]
    assert f" {len(healthy)} more scripts are healthy: " in readme


@pytest.mark.parametrize(
    ("low", "high", "reached", "close", "too_much"),
    [
        (2.0, 4.0, 3.0, True, False),
        (2.0, 4.0, 5.1, True, False),
        (2.0, 4.0, 5.3, False, False),
        (2.0, 4.0, 1.6, True, False),
        (2.0, 4.0, 1.5, False, True),
    ],
)
def test_a_gain_is_right_if_the_twins_is_about_in_its_range(
    low: float, high: float, reached: float, close: bool, too_much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SLOW.parent))
    tried = importlib.import_module("diagnosis").Tried("a", "own-work", True, True, high, reached, [{"gain_low": low}])
    assert (tried.close, tried.too_much) == (close, too_much)


def test_each_script_has_its_fault_and_its_twin() -> None:
    assert len(PLANTED) + len(CASES) >= 40
    assert len(list((SLOW / "healthy").glob("*.py"))) >= 15
    for folder in (SLOW, SLOW / "fixed"):
        assert {path.stem for path in folder.glob("*.py")} == PLANTED.keys()


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_line_is_one_line_and_is_fixed(name: str) -> None:
    script = SLOW / f"{name}.py"
    assert sum(PLANTED[name]["line"] in line for line in script.read_text().splitlines()) == 1
    assert PLANTED[name]["why"].endswith(".")
    assert 0 < changed(script, SLOW / "fixed" / script.name) <= MAX_CHANGED


@pytest.mark.parametrize("name", CASES)
def test_a_case_has_all_it_needs(name: str) -> None:
    case = CASES[name]
    source = case.untouched.read_text()
    assert 55 <= len(source.splitlines()) <= 150
    assert len(case.hints) == 3
    assert all(len(hint) > 40 for hint in case.hints)
    assert len(case.explanation) > 200
    assert case.question
    assert case.cause in case.question.causes
    assert case.steps
    assert all(piece in source for piece in case.lines)
    assert 1 not in case.right_lines(case.untouched)
    assert not any(line.lstrip().startswith("#") and "---" not in line for line in source.splitlines())
    assert 0 < changed(case.untouched, case.solution) <= MAX_CHANGED


def test_the_cases_are_many_and_of_all_causes() -> None:
    assert len(CASES) >= 24
    question = find_part("part11").question
    assert question
    assert {case.cause for case in CASES.values()} == set(question.causes)


def test_the_page_for_instructors_has_every_script_with_its_seed_cause_and_lines() -> None:
    page = (Path(__file__).parents[2] / "docs" / "part11.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| .* \| `([\w-]+)` \| ([\d, ]+) \| [\d.]+ \|$", page, re.M)
    expected = [
        (str(seed), name, case.cause, ", ".join(map(str, sorted(case.right_lines(case.untouched)))))
        for seed, (name, case) in enumerate(CASES.items(), start=1)
    ]
    assert rows == expected
