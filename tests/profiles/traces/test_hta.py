"""The analyses by the rules of HolisticTraceAnalysis, held against its answers."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_traces import made_up, write

from workshop.profiles.traces import hta, read

ANSWERS = json.loads(Path(__file__).with_name("answers_of_hta.json").read_text())
"""What traceinsight 0.6.1 answers, by the seed of the trace."""


@pytest.mark.parametrize("seed", ANSWERS)
def test_the_numbers_of_holistic_trace_analysis(seed: str, tmp_path: Path) -> None:
    found = hta.analyses({0: read(write(tmp_path / "t.json.gz", made_up(int(seed))))})
    for name, answer in ANSWERS[seed].items():
        assert same(json.loads(json.dumps(found[name])), answer), name


def same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of sums."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == pytest.approx(other, rel=1e-9, abs=1e-6)
    return bool(one == other)
