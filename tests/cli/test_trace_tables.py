"""The tables of `workshop trace` in a terminal."""

import json
from pathlib import Path

import pytest
from made_traces import made_up

from workshop.cli.trace_tables import TITLES, as_text
from workshop.profiles.traces import findings, load
from workshop.profiles.traces.tables import tables


@pytest.mark.parametrize("ranks", [1, 2])
def test_no_line_is_wider_than_a_terminal_of_80_columns(ranks: int, tmp_path: Path) -> None:
    """However long the names of operators and kernels are."""
    for rank in range(ranks):
        trace = made_up(rank + 16) | {"distributedInfo": {"rank": rank}}
        for event in trace["traceEvents"]:
            if event.get("cat") in ("cpu_op", "kernel"):
                event["name"] += "_and_so_on" * 20
        (tmp_path / f"rank{rank}.pt.trace.json").write_text(json.dumps(trace))
    traces = load([tmp_path])
    text = as_text(tables(traces), findings.findings(traces), ranks > 1, 80)
    assert max(map(len, text.splitlines())) == 80, "names take the room that there is"
    assert [title for title in TITLES.values() if title not in text] == [TITLES["stragglers"]] * (ranks == 1)
