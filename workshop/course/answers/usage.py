"""Judges an answer by what a script makes of the machine while it is watched."""

import os
from dataclasses import dataclass, replace

import psutil
from nvitop import ResourceMetricCollector

from workshop.course.answers.question import Question
from workshop.judge.verdict import Outcome, Verdict
from workshop.probe.phases import Phase
from workshop.processes import gpus
from workshop.processes.process_tree import cpu_seconds

EPOCHS = 2

IDLE, BUSY = 0.4, 0.6
"""The shares of time up to which something counts as idle, and from which on as busy; between them, nobody is wrong."""


@dataclass(frozen=True)
class Usage:
    """What a run made of the machine. All figures are shares, from 0 to 1."""

    cpu: float
    """The share of all cores' time that the processes of the run took."""
    host_cpu: float
    """The same of all processes of the machine."""
    memory: float
    """The share of the machine's memory that was in use."""
    gpu: float | None
    """The share of the time that the busiest GPU was busy; None where there is none."""
    data_wait: float
    """The share of the time that the training loop waited for data."""


def judge(question: Question) -> Verdict:
    """Ask which resource is busy most of the time, and then watch the script."""
    answer = question.answer("cpu", "gpu", "none")
    usage = watch(question)
    shares = {"cpu": usage.cpu} | ({"gpu": usage.gpu} if usage.gpu is not None else {})
    busiest = max(shares, key=lambda name: shares[name])
    right = ({busiest} if shares[busiest] > IDLE else set()) | ({"none"} if shares[busiest] < BUSY else set())

    gpu = "there is no GPU here" if usage.gpu is None else f"the busiest GPU for {usage.gpu:.0%} of it"
    busy = f"the run kept the cores busy for {usage.cpu:.0%} of the time; {gpu}"
    waits = f"for {usage.data_wait:.0%} of the time the training loop waited for data"
    if answer in right:
        verdict = question.verdict(Outcome.DONE, busy, waits)
    else:
        verdict = question.verdict(Outcome.NOT_YET, f"{answer!r} is not what was measured: {busy}", waits)
    figures = {
        "CPU, this run": usage.cpu,
        "CPU, all programs": usage.host_cpu,
        "GPU": usage.gpu,
        "memory": usage.memory,
        "data wait": usage.data_wait,
    }
    return replace(verdict, shares={name: share for name, share in figures.items() if share is not None})


def watch(question: Question) -> Usage:
    """Let the script train for a few epochs, and see what it makes of the machine.

    Raises:
        ScriptError: it broke.
    """
    question.say("watching your script for a few steps")
    with question.run(question.script) as script:
        script.epoch()
        assert script.process
        pid = script.process.pid
        collector = ResourceMetricCollector(gpus.devices(), root_pids={pid}, interval=0.2)
        before_s = _cpu_seconds(pid)
        with collector(tag="run"):
            epochs = [script.epoch() for _ in range(EPOCHS)]
            metrics = collector.collect()
        used_s = _cpu_seconds(pid) - before_s
    seconds = sum(epoch.seconds for epoch in epochs)
    busy = [value for name, value in metrics.items() if name.endswith("gpu_utilization (%)/mean")]
    return Usage(
        cpu=used_s / seconds / (os.cpu_count() or 1),
        host_cpu=metrics["run/host/cpu_percent (%)/mean"] / 100,
        memory=metrics["run/host/memory_percent (%)/mean"] / 100,
        gpu=max(busy) / 100 if busy else None,
        data_wait=sum(epoch.phases[Phase.DATA_WAIT] for epoch in epochs) / seconds,
    )


def _cpu_seconds(pid: int) -> float:
    """The CPU time of a process, its descendants, and those of its children that have ended, in seconds."""
    return float(sum(psutil.Process(pid).cpu_times()[:4])) + cpu_seconds(pid)  # user, system, and the children's
