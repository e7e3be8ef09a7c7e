"""The analyses by the rules of HolisticTraceAnalysis, held against its answers."""

import json
from functools import partial
from pathlib import Path

import pytest
from made_traces import made_up, write

from workshop.traces import read
from workshop.traces.hta import rounded

close_to = partial(pytest.approx, rel=1e-9, abs=1e-6)
ANSWERS = json.loads(
    Path(__file__).with_name("answers_of_hta.json").read_text(),
    parse_float=lambda text: close_to(float(text)),
    parse_int=lambda text: close_to(int(text)),
)
"""What traceinsight 0.6.1 answers, by the seed of the trace."""


@pytest.mark.parametrize("seed", ANSWERS)
def test_the_numbers_of_holistic_trace_analysis(seed: str, tmp_path: Path) -> None:
    found = rounded.analyses({0: read(write(tmp_path / "t.json.gz", made_up(int(seed))))})
    for name, answer in ANSWERS[seed].items():
        assert json.loads(json.dumps(found[name])) == answer, name
