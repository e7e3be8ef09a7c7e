"""What is read of the samples that the processes of a script have taken."""

import os
from pathlib import Path

import pytest
from made_measurements import made_steps

from workshop.diagnosis.diagnosis import diagnose, line_table
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import ENTER, PROBE, read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.listener import TELL
from workshop.probe.observations import Role, StackSamples
from workshop.probe.phase_clock import PhaseClock
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame

MINE, HOOK, TELLS = ("train", "/me/train.py", 5), ("wrapper", f"{PROBE}/hooks.py", 9), (*TELL, 7)


def test_what_the_workshop_itself_does_is_nobodys_line(tmp_path: Path) -> None:
    EventFile(str(tmp_path)).write(
        StackSamples,
        trainer=os.getpid(),
        frames=(MINE, HOOK, TELLS),
        stacks=((0,), (0, 1, 2), (0, 1)),
        samples=tuple((float(time_s), Role.TRAINING, "other", time_s % 3) for time_s in range(7)),
        cpu_s=1.0,
    )
    samples = read_observations(tmp_path, [os.getpid()]).samples
    assert [each.time_s for each in samples] == [2.0, 3.0, 5.0, 6.0]
    assert {each.stack for each in samples} == {(Frame(*MINE),)}


def test_a_wait_for_the_gpu_as_a_phase_begins_is_no_time_of_the_line_that_begins_it(tmp_path: Path) -> None:
    """`optimizer.zero_grad()` begins one: before, the clock waits for what other lines have asked of the GPU."""
    assert (PhaseClock.enter.__code__.co_name, PhaseClock.enter.__code__.co_filename) == ENTER
    script = str(tmp_path / "mine.py")
    asks, clears, enters = ("main", script, 1), ("main", script, 2), (*ENTER, 9)
    waits = ("synchronize", "/env/site-packages/torch/cuda/__init__.py", 8)
    EventFile(str(tmp_path)).write(
        StackSamples,
        trainer=os.getpid(),
        frames=(asks, clears, HOOK, enters, waits),
        stacks=((0,), (1, 2, 3, 4)),
        samples=tuple((0.05 * number, Role.TRAINING, "other", number % 4 > 0) for number in range(41)),
        cpu_s=1.0,
    )
    steps = made_steps({Phase.OTHER: 50.0, Phase.FORWARD: 50.0}, 20)
    measurement = Measurement(steps, steps, observations=read_observations(tmp_path, [os.getpid()]))
    assert [(each.line, each.share) for each in line_table(measurement)] == [(1, pytest.approx(0.125))]
    assert {each.line for each in diagnose(measurement).findings} == {1}
