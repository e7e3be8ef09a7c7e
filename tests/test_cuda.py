"""What is said of CUDA: on a machine that has it, each claim is measured; elsewhere, what the measuring does."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from conftest import Run

FOLDER = Path(__file__).parents[1] / "benchmarks"
BENCHMARK = FOLDER / "cuda.py"


def load(name: str) -> ModuleType:
    """Import a benchmark under another name: `cuda` is NVIDIA's."""
    spec = importlib.util.spec_from_file_location(f"{name}_benchmark", FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


with pytest.MonkeyPatch.context() as beside:
    beside.syspath_prepend(FOLDER)
    benchmark = load("cuda")
    import cuda_claims
    import cuda_rows


@pytest.mark.acceptance
@pytest.mark.cuda
@pytest.mark.parametrize("claim", cuda_claims.CLAIMS)
def test_a_claim_about_cuda(claim: str, data: Path, tmp_path: Path) -> None:
    found = cuda_claims.CLAIMS[claim].row(cuda_rows.Place(tmp_path, data, "cuda"))
    assert found.met, found.says


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.slow
def test_without_a_device_every_row_says_so(run: Run, tmp_path: Path) -> None:
    done = run(BENCHMARK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| no CUDA device | - |") == len(cuda_claims.CLAIMS)
    rows = json.loads((tmp_path / "cuda.json").read_text())["rows"]
    assert [(row["row"], row["says"], row["met"]) for row in rows] == [
        (name, "no CUDA device", None) for name in cuda_claims.CLAIMS
    ]


BESIDE = {claim.beside_others: name for name, claim in cuda_claims.CLAIMS.items()}


@pytest.mark.parametrize("broken", BESIDE.values(), ids=["beside others" if each else "alone" for each in BESIDE])
def test_a_row_that_breaks_does_not_stop_the_others(broken: str, data: Path, tmp_path: Path) -> None:
    def row(name: str) -> cuda_rows.Row:
        def measure(_: cuda_rows.Place) -> cuda_rows.Found:
            if name == broken:
                raise ValueError("no such\nkernel")
            return cuda_rows.Found("as claimed", True)

        return measure

    claims = {
        name: cuda_rows.Claim(claim.text, row(name), claim.beside_others) for name, claim in cuda_claims.CLAIMS.items()
    }
    found = benchmark.measure(claims, tmp_path, "cpu", data)
    assert list(found) == list(claims)
    assert found.pop(broken).says == "broke: no such kernel"
    assert all(each.met for each in found.values())


def test_what_is_missing_and_not_provided_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(benchmark, "NEEDED", ["torch", "no-such-distribution"])
    with pytest.raises(SystemExit, match="not installed here: no-such-distribution; name a folder with --wheels"):
        benchmark.provide(None, tmp_path)


def test_its_name_hides_nothing_of_nvidias_package(run: Run) -> None:
    """What lies beside a script that is run comes first on its path."""
    without = run("-c", "import cuda; print(*cuda.__path__)")
    if without.returncode:
        pytest.skip("NVIDIA's package is not installed")
    found = run("-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import cuda; print(*cuda.__path__)")
    assert found.stdout == without.stdout
