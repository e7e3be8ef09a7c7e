"""What the check of a part with a question works with: the answer, the line profile, a few watched steps."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from linecache import getline
from pathlib import Path

import psutil
from nvitop import ResourceMetricCollector

from workshop import nvidia
from workshop.errors import WorkshopError
from workshop.harness.trial import Trial
from workshop.harness.verdict import Outcome, Verdict
from workshop.profiles import lines, seen_lines
from workshop.profiles.traces import read as read_trace
from workshop.profiles.traces.ranks import load
from workshop.profiles.traces.steps import steps as step_phases
from workshop.profiles.traces.steps import stragglers
from workshop.recording.torch_run import TRACES

PHASE_OF = {
    "data": "data wait",
    "copy": "host-to-device copy",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
}
"""By the words that a participant answers with."""

AS_HOT = 0.9
"""A line that takes so large a part of the hottest one's time is as good an answer."""

NOT_SEEN = "was not seen in"
"""Of a line, by a sampling profiler: it may have run for all that."""

LEAST_BEHIND = 0.1
"""Of a step: a rank that works less than that longer than the others is none that anybody waits for."""

EPOCHS = 2

Say = Callable[[str], None]


@dataclass(frozen=True)
class Usage:
    """What a run made of the machine. All are shares, from 0 to 1."""

    cpu: float
    """Of all cores' time, by the processes of the run."""
    host_cpu: float
    """The same, by all processes of the machine."""
    memory: float
    """Of the machine's."""
    gpu: float | None
    """Of the busiest GPU's time; None where there is none."""
    data_wait: float
    """Of the training loop's time."""


class Observation:
    """One check of a part with a question.

    Args:
        trial: the part and the script.
        ask: puts the question to the participant and returns the answer; None if nobody is there to answer.
        say: told of the progress.
    """

    def __init__(self, trial: Trial, ask: Callable[[str], str] | None, say: Say) -> None:
        self.trial, self.say = trial, say
        self.ask = ask
        self.said = ""

    def answer(self, *choices: str) -> str:
        """The participant's answer.

        Raises:
            WorkshopError: it is none of the choices, where there are some, or there is nobody to ask.
        """
        part = self.trial.part
        if self.ask is None:
            raise WorkshopError(f"{part.name} asks a question: {part.question}")
        self.said = self.ask(part.question).strip().lower()
        if choices and self.said not in choices:
            raise WorkshopError(f"{self.said!r} is no answer to this; choose one of {', '.join(choices)}")
        return self.said

    def verdict(self, outcome: Outcome, *reasons: str, next: str = "") -> Verdict:
        """On this part."""
        return Verdict(self.trial.part.name, outcome, reasons, next=next)

    def judge_line(self) -> Verdict:
        """Ask for the line in which the part's function spends its time, and look into the script's line profile."""
        script, name = self.trial.candidate, self.trial.part.profiled
        path = self.profile()
        run_again = f"run kernprof -lv {script.name} with its config once more"
        if path is None:
            return self.verdict(Outcome.NOT_YET, f"there is no {script.name}.lprof here", next=run_again)
        function = lines.find(path, script, name)
        if function is None:
            others = {each.file.resolve() for each in lines.read(path)} - {script.resolve()}
            of = f"; it was taken of {min(others)}" if others else ""
            hint = f"put @profile above def {name}, and {run_again}"
            return self.verdict(Outcome.NOT_YET, f"{path.name} does not cover {name} of {script}{of}", next=hint)
        main = lines.find(path, script, "main")
        if stale := lines.why_stale(path, function, script, ran_s=main.seconds if main else 0.0):
            return self.verdict(Outcome.NOT_YET, f"the profile is stale: {stale}", next=run_again)
        if function.hottest is None:
            lesson = f"workshop show {self.trial.part.name}"
            return self.verdict(
                Outcome.NOT_YET,
                f"{name} has 0 hits in {path.name}: either it never ran, or DataLoader workers ran it",
                next=f"profile with num_workers=0, or with worker_init_fn=profile_worker: {lesson}",
            )
        return self.compare(function)

    def judge_recording(self) -> Verdict:
        """Ask for the line of the script that was seen most often, and look into its newest recording by py-spy."""
        part, script = self.trial.part, self.trial.candidate
        record = f"workshop record {part.recorded} -- python {script.name} with its config"
        found = next(seen_lines.of_script([Path.cwd(), script.parent], script), None)
        if found is None:
            return self.verdict(Outcome.NOT_YET, f"there is no recording of {script.name} here", next=record)
        path, recording = found
        if stale := seen_lines.why_stale(path, recording, script):
            return self.verdict(Outcome.NOT_YET, f"the recording is stale: {stale}", next=record)
        if "--idle" in part.recorded and not seen_lines.shows_waiting(recording, script):
            missing = f"hardly anything waits in {path.name}: it was recorded without --idle"
            return self.verdict(Outcome.NOT_YET, missing, next=record)
        function = seen_lines.as_function(recording, script)
        return self.compare(replace(function, name=f"{script.name} ({path.name})"), NOT_SEEN)

    def judge_earlier_recording(self) -> Verdict:
        """The same for the script as it first came, whatever has become of it since."""
        part, script, untouched = self.trial.part, self.trial.candidate, self.trial.part.untouched
        changed = script.read_bytes() != untouched.read_bytes()
        for path, recording in seen_lines.of_script([Path.cwd(), script.parent], script):
            if changed and path.stat().st_mtime > script.stat().st_mtime:
                continue  # it may well be of the script as it is now, with no line moved
            if not seen_lines.why_others(path, recording, untouched):
                function = seen_lines.as_function(recording, untouched)
                return self.compare(replace(function, name=f"{untouched.name} ({path.name})"), NOT_SEEN)
        missing = f"there is no recording of {script.name} as it first came"
        record = f"workshop reset {part.name}, and workshop record {part.recorded} -- python {script.name}"
        return self.verdict(Outcome.NOT_YET, missing, next=record)

    def judge_trace(self) -> Verdict:
        """Ask which phase takes most of a step, and look into the newest trace by torch.profiler."""
        script = self.trial.candidate
        record = f"workshop record torch -- {script.name} with its config"
        folders = {folder.resolve() for folder in (Path.cwd(), script.parent)}
        paths = [path for folder in folders for path in folder.glob(f"prof*/{TRACES}")]
        paths.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        trace = next((trace for trace in map(read_trace, paths) if trace.script == script.name), None)
        if trace is None:
            return self.verdict(Outcome.NOT_YET, f"there is no trace of {script.name} in prof", next=record)
        path = trace.path
        if script.stat().st_mtime > path.stat().st_mtime:
            stale = f"the trace is stale: {script.name} was saved after {path.name} was written"
            return self.verdict(Outcome.NOT_YET, stale, next=record)
        steps = step_phases(trace)
        if not steps:
            return self.verdict(Outcome.NOT_YET, f"there is no step in {path.name}", next=record)
        answer = self.answer(*PHASE_OF)
        whole = sum(step.end - step.start for step in steps)
        shares = {phase: sum(step.phases[phase] for step in steps) / whole for phase in PHASE_OF.values()}
        share = shares[PHASE_OF[answer]]
        says = f"{PHASE_OF[answer]} takes {share:.0%} of the {len(steps)} steps in {path.parent.name}/{path.name}"
        if share >= AS_HOT * max(shares.values()):
            return replace(self.verdict(Outcome.DONE, says), shares=shares)
        return self.verdict(Outcome.NOT_YET, f"{says}; another phase takes more")

    def judge_slow_rank(self) -> Verdict:
        """Ask which rank is slower than the others, and look into the newest traces of several ranks."""
        part, script = self.trial.part, self.trial.candidate
        record = f"workshop show {part.name} says how to record all ranks"
        missing = f"there is no trace of {script.name} on {part.ranks} ranks here"
        folders = {folder.resolve() for folder in (Path.cwd(), script.parent)}
        found = {path.parent for folder in folders for path in folder.glob(f"prof*/{TRACES}")}
        for folder in sorted(found, key=lambda folder: folder.stat().st_mtime, reverse=True):
            traces = load([folder])
            if len(traces) < part.ranks or {trace.script for trace in traces.values()} != {script.name}:
                continue
            table = stragglers(traces)
            if not table:
                missing = f"the ranks in {folder.name} exchange nothing: record once they train one model"
                continue
            behind = table[0]["behind(us)"] / table[0]["step(us)"]
            if behind < LEAST_BEHIND:
                missing = f"no rank in {folder.name} is slower than the others: record with configs/bad_node_config.py"
                continue
            answer = self.answer(*(str(row["rank"]) for row in sorted(table, key=lambda row: str(row["rank"]))))
            row = next(row for row in table if str(row["rank"]) == answer)
            says = f"rank {answer} works {row['own_work(us)'] / 1e6:.2f} s of each step by itself, in {folder.name}"
            if row is table[0]:
                return self.verdict(Outcome.DONE, f"{says}, {behind:.0%} of the step more than the quickest")
            return self.verdict(Outcome.NOT_YET, f"{says}; another one works more, and this one waits for it")
        return self.verdict(Outcome.NOT_YET, missing, next=record)

    def compare(self, function: lines.Function, absent: str = "did not run in") -> Verdict:
        """Hold the answer against a function's lines."""
        answer = self.answer()
        if not answer.isdecimal():
            raise WorkshopError(f"{answer!r} is not the number of a line")
        number, hottest = int(answer), function.hottest
        assert hottest  # who calls has looked
        share = function.share(number)
        source = getline(str(function.file), number).strip()
        if number not in {line.number for line in function.lines}:
            return self.verdict(Outcome.NOT_YET, f"line {number} {absent} {function.name}")
        says = f"line {number} takes {share:.1%} of the time in {function.name}: {source}"
        if share >= AS_HOT * function.share(hottest.number):
            return self.verdict(Outcome.DONE, says)
        return self.verdict(Outcome.NOT_YET, f"{says}; another line takes more")

    def profile(self) -> Path | None:
        """The newest line profile of the script: kernprof writes it where it is run, which may be beside the script."""
        script = self.trial.candidate
        beside = script.with_name(f"{script.name}.lprof")
        by_variable = Path.cwd() / "profile_output.lprof"  # of LINE_PROFILE=1
        found = [path for path in {beside, Path.cwd() / beside.name, by_variable} if path.is_file()]
        for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
            if any(lines.same_file(function.file, script) for function in lines.read(path)):
                return path
        return beside if beside in found else None

    def usage(self) -> Usage:
        """Let the script train for two epochs, and see what it makes of the machine.

        Raises:
            ScriptError: it broke.
        """
        self.say("watching your script for a few steps")
        with self.trial.child(self.trial.candidate) as child:
            child.epoch()
            assert child.process
            collector = ResourceMetricCollector(nvidia.devices(), root_pids={child.process.pid}, interval=0.2)
            before_s = _cpu_seconds(child.process.pid)
            with collector(tag="run"):
                epochs = [child.epoch() for _ in range(EPOCHS)]
                metrics = collector.collect()
            used_s = _cpu_seconds(child.process.pid) - before_s
        seconds = sum(epoch.seconds for epoch in epochs)
        gpus = [value for name, value in metrics.items() if name.endswith("gpu_utilization (%)/mean")]
        return Usage(
            cpu=used_s / seconds / (os.cpu_count() or 1),
            host_cpu=metrics["run/host/cpu_percent (%)/mean"] / 100,
            memory=metrics["run/host/memory_percent (%)/mean"] / 100,
            gpu=max(gpus) / 100 if gpus else None,
            data_wait=sum(epoch.phases["data wait"] for epoch in epochs) / seconds,
        )


def _cpu_seconds(pid: int) -> float:
    """Used by a process, its descendants, and those of them that have ended."""
    root = psutil.Process(pid)
    times = root.cpu_times()
    total = sum(times[:4])  # user, system, and the same of ended children
    for process in root.children(recursive=True):
        try:
            total += sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return float(total)
