"""Scripts that speak the wire without training anything: process control is tried with them in no time."""

from collections.abc import Iterator

import pytest

from workshop.probe.messages import Proceed, StepReport
from workshop.runs.measured_script import MeasuredScript
from workshop.runs.staged_run import StagedRun

EPOCHS = """
import os, sys, time
from workshop.probe import start
from workshop.probe.messages import EpochBegan, EpochEnded, EpochReport, Proceed, Recomputation

judge = start.judge
names = ("data wait", "host-to-device copy", "forward", "backward", "optimizer", "validation", "other")
phases = dict.fromkeys(names, 0.0)
begun = False

def epoch(seconds=0.0, steps=2, cut_short=False):
    "Train for an epoch, hand it over, and wait until the judge lets the script go on."
    global begun
    if not begun:
        begun = True
        judge.send(EpochBegan())
    time.sleep(seconds)
    judge.send(EpochEnded())
    own = {**phases, "other": seconds}
    judge.send(EpochReport(True, steps, own, None, [], 0, cut_short=cut_short))
    while not cut_short and not isinstance(judge.receive(), Proceed):
        judge.send(Recomputation(loss=1.0))
"""
"""The beginning of a script that is judged."""

STEPS = """
import os, sys, time
from workshop.probe.connection import connect
from workshop.probe.event_file import EventFile
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import AsItIs, BatchCounts, Circumstances, FromMemory, LoadWith
from workshop.probe.messages import SetStage, StepReport, WarmUp
from workshop.probe.observations import LoaderIterated, LoaderMade, StackSamples, WorkerAsked
from workshop.probe.wire import decode

config = decode(os.environ["WORKSHOP_PROBE"])
parent, events = connect(config), EventFile(config.folder)
to, now_s, taken, sampled = WarmUp(), time.monotonic(), 0, 0

def line_of(text):
    "Return the number of the first line of this script that begins with a text."
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if line.lstrip().startswith(text))

def made_loader(text="loader = DataLoader", number=1, settings=LoaderSettings(), **about):
    "Note that the line that begins with a text makes a DataLoader, and that the training goes through it."
    events.write(LoaderMade, loader=number, stack=(("<module>", __file__, line_of(text)),), dataset=number)
    usual = dict(training=True, collate=("", ""), batches=50)
    events.write(LoaderIterated, loader=number, settings=settings, **usual | about)

def sample(lines):
    "Note lines that the training thread was in, each with its phase and its seconds."
    global sampled
    at_s, taken = now_s, []
    for _, phase, seconds in lines:
        at_s += seconds
        taken.append((at_s, "training", phase, sampled + len(taken)))
    frames = tuple(("main", __file__, line_of(text)) for text, *_ in lines)
    stacks = tuple((sampled + number,) for number in range(len(lines)))
    events.write(StackSamples, trainer=os.getpid(), frames=frames, stacks=stacks, samples=tuple(taken), cpu_s=0.0)
    sampled += len(lines)

def step(data_wait=0.01, forward=0.005, validation=0.0, other=0.0, device="cpu", lines=(), loads=None, **batches):
    "Take a step on the made clock, report it, and wait until the parent has decided which stage the next one has."
    global to, now_s, taken
    replays = to == FromMemory() and batches.get("kept", 0) > 0
    with_workers = isinstance(to, LoadWith) and loads is not None
    wait_s = loads(to.settings) if with_workers else 0.0 if replays else data_wait
    failure, wait_s = (wait_s, 0.0) if isinstance(wait_s, str) else ("", wait_s)
    if lines:
        sample(lines)
    phases = {"data wait": wait_s, "host-to-device copy": 0.0, "forward": forward, "backward": 0.0, "optimizer": 0.0,
              "validation": validation, "other": other}
    now_s += sum(phases.values())
    taken_us = round(sum(phases.values()) * 1e6)
    counts = BatchCounts(**({"training": 1} | batches | {"from_memory": replays, "with_workers": with_workers}))
    where, waits_s = Circumstances(device), ((1, wait_s), (2, wait_s / 8))
    parent.send(StepReport(to, (taken_us,), now_s, phases, 4, counts, where, os.getpid(), first_step=taken,
                           failure=failure, waits_s=waits_s))
    taken += 1
    while isinstance(message := parent.receive(), SetStage):
        to = message
"""
"""The beginning of a script that is measured: its steps take what they say on a clock of their own, and no time."""


def by_the_clock_of_the_script(patch: pytest.MonkeyPatch) -> None:
    """Have the steps of a script timed by its own clock, and let it go on when the next step is asked for.

    Nothing that is decided depends on this machine: a stage that is set after a step is that of the very next one.
    """
    reports, take = MeasuredScript.reports, StagedRun.take

    def in_lockstep(script: MeasuredScript) -> Iterator[StepReport]:
        for report in reports(script):
            yield report
            script.send(Proceed())

    patch.setattr(MeasuredScript, "reports", in_lockstep)
    patch.setattr(StagedRun, "take", lambda run, steps, seconds=0.0: take(run, steps))
    patch.setattr(StagedRun, "now", lambda run: run.last.ended_s if run.last else 0.0)
    patch.setattr("workshop.runs.staged_run.MAX_SETTLING_S", 0.0)
    patch.setattr("workshop.runs.staged_run.LAST_WRITTEN_S", 0.0)
