"""The critical path, held against programs whose simulation tells how long they take, with and without an operator."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import write
from simulated_step import SimulatedStep

from workshop.profiles.traces import read
from workshop.profiles.traces.critical_path import critical_path, durations_without, typical_step
from workshop.profiles.traces.dependencies import operator_names


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 4), st.booleans())
def test_a_simulated_step_takes_as_long_as_its_path(chance: random.Random, streams: int, whole: bool) -> None:
    step = SimulatedStep(chance, streams)
    end = step.simulate()[whole]
    with TemporaryDirectory() as folder:
        trace = read(write(Path(folder) / "trace.json", {"traceEvents": step.trace()}))
    window = typical_step(trace)
    assert window is not None
    path = critical_path(trace, window._replace(end=end, whole=whole))
    graph, moments = path.graph, path.moments
    # Every piece begins where the one before ends, and together they are the step.
    assert np.array_equal(graph.time[moments[1:]] - graph.own[moments[1:]], graph.time[moments[:-1]])
    assert sum(path.times().values()) == path.duration == end
    # The step without an operator is what the simulation says.
    operators = np.unique(graph.operator[graph.operator >= 0])
    names = [operator_names(trace, operator) for operator in operators.tolist()]
    assert set(names) <= step.keys()
    for key, without in zip(names, durations_without(graph, operators).tolist(), strict=True):
        assert without == step.simulate(key)[whole], key
