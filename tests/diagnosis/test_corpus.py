"""The corpora of scripts with a fault are complete; `benchmarks/` tries them, and part 11 hands some of them out."""

import difflib
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from workshop.errors import WorkshopError
from workshop.parts import find_part
from workshop.parts.case import case_names, find_case, without_fault

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CORPORA = ("slow", "unseen", "blind", "gpu", "memory", "memory/unseen")
PLANTED = {corpus: tomllib.loads((BENCHMARKS / corpus / "planted.toml").read_text()) for corpus in CORPORA}
CASES = {name: find_case(find_part("part11"), name) for name in case_names(find_part("part11"))}

MARK = "# fault\n"
MAX_CHANGED = 24
"""A twin differs in no more lines: it does the same work."""


def is_a_twin(script: Path, fixed: Path) -> bool:
    source, twin = script.read_text(), fixed.read_text()
    compile(twin, str(fixed), "exec")
    changed = [line for line in difflib.ndiff(source.splitlines(), twin.splitlines()) if line[0] in "+-"]
    return 0 < len(changed) <= MAX_CHANGED and MARK not in twin


def test_the_readme_counts_what_there_is() -> None:
    readme = (BENCHMARKS / "README.md").read_text()
    there_are = re.search(
        r"There are (\d+): (\d+) in\s\[`slow/`\]\(slow\), (\d+) in \[`unseen/`\]\(unseen\), (\d+) in "
        r"\[`blind/`\]\(blind\), and the (\d+) of part 11",
        readme,
    )
    assert there_are
    counts = [*(len(PLANTED[each]) for each in ("slow", "unseen", "blind")), len(CASES)]
    assert list(map(int, there_are.groups())) == [sum(counts), *counts]
    healthy = [path for each in ("slow", "unseen", "blind") for path in (BENCHMARKS / each / "healthy").glob("*.py")]
    assert f" {len(healthy)} more scripts are healthy: " in readme


@pytest.mark.parametrize(
    ("low", "reached", "close", "too_much"),
    [
        *((2.0, 3.0, True, False), (2.0, 5.1, True, False), (2.0, 5.3, False, False), (2.0, 1.6, True, False)),
        *((2.0, 1.5, False, True), (None, 2.1, True, False), (None, 1.9, False, True), (None, 5.1, True, False)),
    ],
)
def test_a_gain_is_right_if_the_twins_is_about_in_its_range_or_not_far_below_a_limit(
    low: float | None, reached: float, close: bool, too_much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    tried = importlib.import_module("diagnosis").Tried("a", "own-work", True, True, 4.0, reached, [{"gain_low": low}])
    assert (tried.close, tried.too_much) == (close, too_much)


def test_each_script_has_its_fault_and_a_twin() -> None:
    for corpus, planted in PLANTED.items():
        assert {path.stem for path in (BENCHMARKS / corpus).glob("*.py")} == planted.keys()
        for name, values in planted.items():
            script = BENCHMARKS / corpus / f"{name}.py"
            found = script.read_text().count(values.get("line", MARK))
            assert found == 1 if "line" in values else found, script
            assert values["why" if "line" in values else "what"].endswith("."), script
            assert is_a_twin(script, without_fault(script, values["fix"])), script


@pytest.mark.parametrize("times", [0, 2])
def test_what_a_fix_replaces_is_in_the_script_once(times: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("a = 1\n" * times)
    with pytest.raises(WorkshopError, match=f"script.py has this {times} times, and not once:\na = 1\n"):
        without_fault(script, [{"old": "a = 1\n", "new": ""}])


def test_a_twin_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr("sys.argv", ["corpus.py", "whale_calls"])
    corpus = importlib.import_module("corpus")
    corpus.main()
    assert capsys.readouterr().out == CASES["whale_calls"].solution.read_text()
    assert [each.name for each in corpus.planted()] == sorted([*PLANTED["slow"], *CASES])


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
    assert is_a_twin(case.untouched, case.solution)


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
