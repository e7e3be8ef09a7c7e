"""Scripts that speak the wire without training anything: process control is tried with them in no time."""

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
from workshop.probe.wire import decode
from workshop.probe.messages import BatchCounts, Circumstances, SetStage, StepReport

parent = connect(decode(os.environ["WORKSHOP_PROBE"]))
stage = "warm-up"
last_step_at = None

def step(data_wait=0.01, forward=0.005, device="cpu", **batches):
    "Take a step, report it, and go on to another stage if the parent asks for it."
    global stage, last_step_at
    loaded = stage != "replay" or not batches.get("kept")
    time.sleep((data_wait if loaded else 0.0) + forward)
    at, named = time.monotonic(), data_wait * loaded + forward
    other = 0.0 if last_step_at is None else at - last_step_at - named
    last_step_at = at
    phases = {"data wait": data_wait * loaded, "host-to-device copy": 0.0, "forward": forward,
              "backward": 0.0, "optimizer": 0.0, "validation": 0.0, "other": other}
    taken_us = round((named + other) * 1e6)
    counts = BatchCounts(**({"training": 1} | batches | {"from_memory": 0 if loaded else 1}))
    parent.send(StepReport(stage, (taken_us,), at, phases, 4, counts, Circumstances(device), os.getpid()))
    while isinstance(message := parent.receive(timeout_s=0), SetStage):
        stage = message.stage
"""
"""The beginning of a script that is measured."""
