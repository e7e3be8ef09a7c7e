"""What is said of CUDA: on a machine that has it, each claim is measured; elsewhere, what the measuring does."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
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
    import corpus
    import cuda_claims
    import cuda_rows
    import cuda_scripts


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

    claims = {name: replace(claim, row=row(name)) for name, claim in cuda_claims.CLAIMS.items()}
    found = dict(benchmark.measure(claims, cuda_rows.Place(tmp_path, data, "cpu")))
    assert found.keys() == claims.keys()
    assert found.pop(broken).says == "broke: no such kernel"
    assert all(each.met for each in found.values())


def test_a_row_that_hangs_is_ended_with_what_it_has_started(data: Path, tmp_path: Path) -> None:
    place, started = cuda_rows.Place(tmp_path, data, "cpu"), tmp_path / "started"

    def hang(place: cuda_rows.Place) -> cuda_rows.Found:
        place.run("-c", f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(1000)")
        return cuda_rows.Found("never", True)

    def limit_s(name: str) -> float:
        if name == "waits":  # what comes before has begun to hang
            return 60.0
        return {"hangs": 5.0, "late": 0.0}[name]

    rows = {"hangs": hang, "waits": lambda _: cuda_rows.Found("as claimed", True), "late": hang}
    found = dict(benchmark.in_processes(rows, place, 2, limit_s))
    assert {name: each.met for name, each in found.items()} == {"hangs": None, "waits": True, "late": None}
    assert found["hangs"].says == "ended: its time is over"
    assert found["late"].says == "not measured: no time is left"
    with suppress(psutil.NoSuchProcess, FileNotFoundError):
        left = psutil.Process(int(started.read_text()))
        while left.status() != psutil.STATUS_ZOMBIE:  # as long as nobody asks how it ended; else this test times out
            time.sleep(0.01)


PLANTED = {each.name: each for each in corpus.in_folder(cuda_scripts.GPU)}
RUNNABLE = {
    **{name: each.script for name, each in PLANTED.items()},
    **{f"{name}-fixed": each.fixed for name, each in PLANTED.items()},
    **{path.stem: path for path in (cuda_scripts.GPU / "healthy").glob("*.py")},
}


@pytest.mark.slow
@pytest.mark.parametrize("script", RUNNABLE.values(), ids=RUNNABLE)
def test_a_script_for_gpus_trains_without_one(script: Path, tmp_path: Path) -> None:
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, script], cwd=tmp_path, env=hidden, stdout=pipe, text=True) as running:
        assert running.stdout
        line = running.stdout.readline()
        running.terminate()
    assert re.fullmatch(r"(epoch|step) 0: -?\d+\.\d+\n", line)


def test_scripts_on_a_gpu_are_counted_by_what_is_right() -> None:
    def row(name: str, met: bool | None, **right: bool) -> dict[str, Any]:
        return {"row": name, "met": met, "figures": {"right": right} if right else {}}

    rows = [
        row("gpu-a", True, named=True, gain=True, headroom=True),
        row("gpu-b", False, named=True, gain=False, headroom=True),
        row("gpu-c", None),
        row("gpu-healthy", True),
        row("part6", True),
    ]
    counts = "Right of 2 scripts: named 2, gain 1, headroom 2; 1 of 1 healthy ones are clean."
    assert cuda_scripts.summary(rows) == counts


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
