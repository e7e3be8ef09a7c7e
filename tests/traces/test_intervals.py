"""Sets of time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workshop.traces.intervals import Spans, overlap, union, without

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)))


@given(INTERVALS, INTERVALS)
def test_sets_of_time(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    """Against sets of single moments."""
    spans, moments = [], []
    for intervals in (one, other):
        start = np.array([start for start, _ in intervals], np.int64)
        spans.append(union(start, start + np.array([length for _, length in intervals], np.int64)))
        moments.append({moment for start, length in intervals for moment in range(start, start + length)})

    def as_moments(found: Spans) -> set[int]:
        return {moment for start, end in zip(*found, strict=True) for moment in range(start, end)}

    assert as_moments(spans[0]) == moments[0]
    assert as_moments(overlap(*spans)) == moments[0] & moments[1]
    assert as_moments(without(*spans)) == moments[0] - moments[1]
    assert overlap(*spans).length == len(moments[0] & moments[1])
