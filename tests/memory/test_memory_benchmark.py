"""`benchmarks/memory.py` counts every script, also one that cannot be measured."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from script_runs import benchmark_module


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark as a module."""
    return benchmark_module("memory", monkeypatch)


@pytest.mark.parametrize(
    "error",
    [subprocess.TimeoutExpired("workshop", 180), subprocess.CalledProcessError(5, "workshop", stderr="")],
    ids=["hangs", "crashes"],
)
def test_a_script_that_cannot_be_measured_is_wrong(
    error: Exception, benchmark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "healthy").mkdir()
    for name in ("two.py", "one.py", "healthy/three.py"):
        (tmp_path / name).write_text("a = 1\n")
    fixes = (f"[[{name}.fix]]\nold = 'a = 1'\nnew = 'a = 2'\n" for name in ("two", "one"))
    (tmp_path / "planted.toml").write_text("".join(fixes))

    def measured(script: Path) -> Any:
        assert script.read_text() == ("a = 2\n" if script.stem == "two_fixed" else "a = 1\n")
        if not script.stem.startswith("two"):
            raise error
        line = {"line": 1, "holder": "", "bytes": 10}
        peak = {"peak_bytes": 10, "followed_bytes": 10, "allocator_bytes": 10, "largest_lines": [line]}
        host = {"together_bytes": 10}
        return {"findings": [], "peaks": [peak], "host": host, "overhead": None}

    monkeypatch.setattr(benchmark, "measured", measured)
    rows = list(benchmark.try_all(tmp_path, []))
    assert [each.name for each in rows] == ["one", "two", "three"]
    text = benchmark.sums([each for each in rows if each.planted], [each for each in rows if not each.planted])
    assert text.count("of 2") == 3
    assert text.endswith("twins 1 of 2, healthy scripts 0 of 1")
    assert [type(error).__name__ in benchmark.row(each) for each in rows] == [True, False, True]
