"""What is read of the samples that the processes of a script have taken."""

import os
from pathlib import Path

from workshop.diagnosis.samples import PROBE, read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.listener import TELL
from workshop.probe.observations import Role, StackSamples
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
