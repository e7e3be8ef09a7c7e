"""Two measurements of memory are compared by device, kind and line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from workshop.errors import WorkshopError
from workshop.memory.memory_change import memory_changes, read_saved_memory


def values(activations: int, rate: float = 0.0, steps: Sequence[int] = ()) -> dict[str, Any]:
    line = {"kind": "activations", "function": "main", "text": "out = model(x)", "file": "/a/train.py", "line": 3}
    peak = {
        "device": "cpu",
        "peak_bytes": 1000 + activations,
        "steps_bytes": steps,
        "kinds": {"parameters": 1000, "activations": activations},
        "lines": [line | {"bytes": activations}],
    }
    growing = [{"bytes_a_step": rate}] if rate else []
    return {"peaks": [peak], "growing": growing, "host": None, "followed": True}


def test_what_has_become_less() -> None:
    changed = {each.name: each for each in memory_changes(values(9000, 10.0), values(2000))}
    assert changed["peak of cpu"].more_than_noise
    assert not changed["  parameters"].more_than_noise
    assert changed["activations, main: out = model(x)"].after == 2000
    assert changed["growth in 1000 steps"].before == 10_000


def test_the_same_again_is_noise() -> None:
    assert not any(each.more_than_noise for each in memory_changes(values(9000), values(9010)))


def test_what_the_peaks_of_steps_scatter_by_is_noise() -> None:
    before, after = values(9000, steps=(8000, 9900, 10000)), values(9900, steps=(8200, 10900, 9100))
    assert not memory_changes(before, after)[0].more_than_noise


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text(json.dumps({"steps": {}}))
    with pytest.raises(WorkshopError, match="no measurement that workshop memory --save"):
        read_saved_memory(path)


def test_a_snapshot_and_a_measurement_have_no_kinds_in_common() -> None:
    with pytest.raises(WorkshopError, match="compared with another one only"):
        memory_changes(values(9000), values(9000) | {"followed": False})
