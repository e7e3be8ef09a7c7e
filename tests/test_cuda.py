"""What is said of CUDA: on a machine that has it, each claim is measured; elsewhere, what the measuring does."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from conftest import Run

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "cuda.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cuda_benchmark", BENCHMARK)
    assert spec
    assert spec.loader
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmark = load()


@pytest.mark.slow
@pytest.mark.cuda
@pytest.mark.parametrize("claim", benchmark.CLAIMS)
def test_a_claim_about_cuda(claim: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARK.parent)
    found = benchmark.CLAIMS[claim].row(benchmark.Place(tmp_path, data, "cuda"))
    assert found.met, found.says


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_every_row_says_so(run: Run, tmp_path: Path) -> None:
    done = run(BENCHMARK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| no CUDA device | - |") == len(benchmark.CLAIMS)
    rows = json.loads((tmp_path / "cuda.json").read_text())["rows"]
    assert [(row["row"], row["says"], row["met"]) for row in rows] == [
        (name, "no CUDA device", None) for name in benchmark.CLAIMS
    ]


@pytest.mark.parametrize("broken", benchmark.CLAIMS)
def test_a_row_that_breaks_does_not_stop_the_others(broken: str, data: Path, tmp_path: Path) -> None:
    def row(name: str) -> benchmark.Row:
        def measure(_: benchmark.Place) -> benchmark.Found:
            if name == broken:
                raise ValueError("no such\nkernel")
            return benchmark.Found("as claimed", True)

        return measure

    claims = {
        name: benchmark.Claim(claim.text, row(name), claim.beside_others) for name, claim in benchmark.CLAIMS.items()
    }
    found = benchmark.measure(claims, tmp_path, "cpu", data)
    assert list(found) == list(claims)
    assert found.pop(broken).says == "broke: no such kernel"
    assert all(each.met for each in found.values())


def test_what_is_missing_and_not_provided_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(benchmark, "NEEDED", ["torch", "no-such-distribution"])
    with pytest.raises(SystemExit, match="not installed here: no-such-distribution; name a folder with --wheels"):
        benchmark.provide(None, tmp_path)
