"""`benchmarks/check_times.py` checks each part with its solution and with the least that its lesson promises."""

from pathlib import Path
from typing import Any

import pytest
from script_runs import benchmark_module

from workshop.course import selftest
from workshop.course.state import State
from workshop.parts import Part, all_parts, find_part


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark as a module."""
    return benchmark_module("check_times", monkeypatch)


def test_the_table_has_a_row_for_each_script_and_columns_for_each_place(benchmark: Any) -> None:
    alone, beside = benchmark.ALONE, benchmark.BESIDE
    rows = [
        benchmark.Row("part3", "its solution", alone, "done", 44.6),
        benchmark.Row("part3", "the least", alone, "done", 51.2),
        benchmark.Row("part3", "its solution", beside, "undecided", 93.0),
    ]
    assert list(benchmark.table(rows)) == [
        "| part | checked with | alone | s | beside a busy loop | s |",
        "|---|---|---|---|---|---|",
        "| part3 | its solution | done | 45 | undecided | 93 |",
        "| part3 | the least | done | 51 |  |  |",
    ]
    assert next(benchmark.table(rows[:1])) == "| part | checked with | alone | s |"


@pytest.mark.parametrize("part", all_parts(), ids=lambda part: part.name)
def test_every_part_is_checked_with_what_is_enough(
    part: Part, benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "profile", lambda *_: None)
    tried = [what for what, _ in benchmark.tries(part, tmp_path, tmp_path)]
    assert len(tried) == 2 if part.change else tried == ["the right answer"]
    if part.change and part.question:
        assert State(tmp_path).get("parts", part.name, "answer")


def test_the_least_that_a_lesson_promises_is_less_than_its_solution(benchmark: Any, tmp_path: Path) -> None:
    for name, has, lacks in ("part3", "num_workers=2)", "num_workers=8"), ("part5", "torch.save(", "num_workers=8"):
        folder = tmp_path / name
        folder.mkdir()
        *_, (what, _) = benchmark.tries(find_part(name), folder, tmp_path)
        script = (folder / "train.py").read_text()
        assert what == "the least that its lesson promises"
        compile(script, name, "exec")
        assert has in script
        assert lacks not in script
