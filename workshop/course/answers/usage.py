"""Judges an answer by what a script makes of the machine while it is watched."""

import math
from dataclasses import replace

import psutil
from nvitop import ResourceMetricCollector

from workshop.course.answers import AnswerCheck
from workshop.judge.reasons import ReasonKind
from workshop.judge.verdict import Verdict
from workshop.probe.own_limits import usable_cores
from workshop.probe.phases import Phase
from workshop.runs.check_queue import turn
from workshop.runs.machine import core_quota, gpus
from workshop.runs.process_tree import cpu_seconds
from workshop.runs.script_error import require_syntax

RUN_CPU, ALL_CPU, GPU, DATA_WAIT = "CPU, this run", "CPU, all programs", "GPU", str(Phase.DATA_WAIT)
"""The names of the shares that the answer is judged by."""


class UsageReason(ReasonKind):
    """What is said of how busy a script keeps the machine."""

    MEASURED = "the run kept the cores busy for {cores:.0%} of the time; {gpu}{others}"
    NOT_MEASURED = "{answer!r} is not what was measured: {0}"
    GPU = "the busiest GPU for {share:.0%} of it"
    NO_GPU = "there is no GPU here"
    OTHER_PROGRAMS = "; with other programs, for {share:.0%}, so on a quiet machine these shares may be others"
    WAITS = "for {share:.0%} of the time the training loop waited for data"


def judge_busiest(check: AnswerCheck) -> Verdict:
    """Ask which resource is busy most of the time, and then watch the script."""
    idle, occupied = 0.4, 0.6  # shares of the time, at most and at least; between them, both answers count
    answer = check.answer("cpu", "gpu", "none")
    shares = watch(check)
    busy = {name: shares[share] for name, share in (("cpu", RUN_CPU), ("gpu", GPU)) if share in shares}
    busiest = max(busy, key=lambda name: busy[name])
    right = ({busiest} if busy[busiest] > idle else set()) | ({"none"} if busy[busiest] < occupied else set())

    gpu = UsageReason.GPU(share=shares[GPU]) if GPU in shares else UsageReason.NO_GPU()
    is_disturbed = shares[ALL_CPU] > shares[RUN_CPU] + idle
    others = UsageReason.OTHER_PROGRAMS(share=shares[ALL_CPU]) if is_disturbed else ""
    found = UsageReason.MEASURED(cores=shares[RUN_CPU], gpu=gpu, others=others)
    waits = UsageReason.WAITS(share=shares[DATA_WAIT])
    if answer in right:
        verdict = check.right(found, waits)
    else:
        verdict = check.wrong(UsageReason.NOT_MEASURED(found, answer=answer), f"workshop show {check.part.name}")
        verdict = replace(verdict, reasons=(*verdict.reasons, waits))
    return replace(verdict, shares=shares)


def watch(check: AnswerCheck, epochs: int = 2) -> dict[str, float]:
    """Let the script train for a few epochs, and return how busy it keeps what, from 0 to 1; no GPU if there is none.

    Raises:
        ScriptError: it broke.
    """
    require_syntax(check.script)
    with turn(check.say), check.run(check.script) as script:
        check.say("watching your script for a few steps")
        cores = min(usable_cores(), core_quota() or math.inf)  # those of its place in the line, if there is one
        script.epoch()
        assert script.process
        pid = script.process.pid
        collector = ResourceMetricCollector(gpus(), root_pids={pid}, interval=0.2)
        before_s = _cpu_seconds(pid)
        with collector(tag="run"):
            taken = [script.epoch() for _ in range(epochs)]
            metrics = collector.collect()
        used_s = _cpu_seconds(pid) - before_s
    seconds = sum(epoch.seconds for epoch in taken)
    gpus_busy = [value for name, value in metrics.items() if name.endswith("gpu_utilization (%)/mean")]
    return {
        RUN_CPU: used_s / seconds / cores,
        ALL_CPU: metrics["run/host/cpu_percent (%)/mean"] / 100,
        **({GPU: max(gpus_busy) / 100} if gpus_busy else {}),
        "memory": metrics["run/host/memory_percent (%)/mean"] / 100,
        DATA_WAIT: sum(epoch.seconds_in([Phase.DATA_WAIT]) for epoch in taken) / seconds,
    }


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, its descendants, and those of its children that have ended."""
    return float(sum(psutil.Process(pid).cpu_times()[:4])) + cpu_seconds(pid)  # user, system, and the children's
