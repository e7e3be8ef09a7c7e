"""The bottlenecks of a GPU, found in samples as of a script on one; there, `benchmarks/cuda.py` tries it."""

from dataclasses import replace

import pytest
from made_measurements import made_steps

from workshop.diagnosis.causes.gpu import gpu_findings
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations, Sample
from workshop.probe.messages import Circumstances
from workshop.probe.observations import Role, Trial
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame
from workshop.runs.measured_steps import MeasuredSteps

LOG, COPY = (Frame("<module>", "/me/train.py", line) for line in (30, 20))


def steps(began_s: float, **phases_ms: float) -> MeasuredSteps:
    """Ten steps with these milliseconds in their phases, by their short names; together 10 ms each."""
    return made_steps({phase: phases_ms.get(phase.short, 0.0) for phase in Phase}, began_s=began_s)


def measured(log_ms: float, log_synchronized_ms: float, pageable_bytes: int = 0) -> Measurement:
    """A script with a line that takes so long as it is, and if each phase has waited for the GPU before."""
    as_it_is = steps(0.0, copy=1.0, forward=9.0 - log_ms, other=log_ms)
    synchronized = steps(100.0, copy=1.0, forward=9.0 - log_synchronized_ms, other=log_synchronized_ms)
    samples = []
    for each, in_log_ms in ((as_it_is, log_ms), (synchronized, log_synchronized_ms)):
        for frame, phase, ms in ((LOG, Phase.OTHER, in_log_ms), (COPY, Phase.COPY, 1.0)):
            time_s = each.began_s + 0.05
            samples.append(Sample(time_s, ms * as_it_is.count / 1e3, 1, Role.TRAINING, str(phase), (frame,)))
    as_it_is = replace(as_it_is, pageable_bytes=pageable_bytes)
    return Measurement(as_it_is, synchronized, circumstances=Circumstances("cuda"), observations=Observations(samples))


def test_a_line_that_waits_for_the_gpu() -> None:
    (found,) = gpu_findings(measured(log_ms=4.0, log_synchronized_ms=0.1))
    assert (found.cause, found.line) == ("device-sync", LOG.line)
    assert found.ms_a_step == pytest.approx(3.9)
    assert 10 / 6.1 <= found.gain < 10 / 6.1 * 1.2


def test_the_gpu_cannot_be_faster_than_the_wait_for_it() -> None:
    (found,) = gpu_findings(measured(log_ms=8.0, log_synchronized_ms=0.0))
    assert 10 / 8 <= found.gain < 10 / 8 * 1.2


def test_work_of_its_own_is_no_wait() -> None:
    assert gpu_findings(measured(log_ms=4.0, log_synchronized_ms=4.0)) == []


def test_copies_from_memory_that_is_not_pinned() -> None:
    (found,) = gpu_findings(measured(0.1, 0.1, pageable_bytes=50_000_000))
    assert (found.cause, found.line, found.phase) == ("pageable-copy", COPY.line, Phase.COPY)
    assert "5.0 MB a step" in found.words


def test_what_pinned_memory_saves_at_least_is_measured() -> None:
    as_estimated = measured(0.1, 0.1, pageable_bytes=50_000_000)
    pinned = Trial(
        *(0.0, 1, 1),
        name="pageable-copy",
        as_it_is_s=2e-3,
        changed_s=1e-3,
        usual_s=2e-3,
        about="5.0 MB",
        rounds=((2e-3, 1e-3), (2.1e-3, 1e-3)),
    )
    tried = replace(as_estimated, observations=replace(as_estimated.observations, raced=[pinned]))
    (found,), (estimated,) = gpu_findings(tried), gpu_findings(as_estimated)
    assert found.gain == estimated.gain
    assert found.gain_low == pytest.approx(10 / 9.5), "half of a copy of 1 ms"
    assert "Tried: a copy of 5.0 MB took 2.00 ms, from pinned memory 1.00. The results are the same." in found.words
    slower = replace(
        tried,
        observations=replace(tried.observations, raced=[replace(pinned, changed_s=2e-3, rounds=((2e-3, 2e-3),) * 2)]),
    )
    assert gpu_findings(slower) == []


def test_nothing_is_said_without_a_gpu() -> None:
    assert gpu_findings(replace(measured(4.0, 0.0, 1), synchronized=None)) == []
