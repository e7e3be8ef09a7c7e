"""Where the time of any training script goes, step by step, and what it could gain from a better data pipeline."""

import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workshop.diagnosis.measured_script import MeasuredScript
from workshop.errors import WorkshopError
from workshop.probe.batch_store import MOST_KEPT
from workshop.probe.messages import SetStage, StepReport
from workshop.probe.phases import Phase
from workshop.processes.process_tree import cpu_seconds
from workshop.processes.script import Say, ScriptError, run_folder

WARM_UP_STEPS = 3
FEWEST_STEPS = 5
"""The number of steps that are measured at least, however long they take."""

SETTLED = 0.05
"""Workers that use less than this share of a core have filled their queues, and are in nobody's way."""

LONGEST_SETTLING_S = 15.0
LONGEST_KEEPING_S = 60.0
PATIENCE_S = 600.0


@dataclass(frozen=True)
class MeasuredSteps:
    """Some steps in a row, together."""

    count: int
    wall_s: float
    """Their time by the clock of the process that measures, which is not the one that trains."""
    phases_s: dict[str, float]
    """Seconds in each phase, by the clock of the process that trains."""
    samples: int

    @property
    def samples_per_s(self) -> float:
        """Samples per second."""
        return self.samples / self.wall_s

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"samples_per_s": self.samples_per_s}


@dataclass(frozen=True)
class Measurement:
    """The result of a measurement."""

    steps: MeasuredSteps
    """The steps of the script as it is."""
    synchronized: MeasuredSteps | None
    """The steps with a wait for the GPU at the border of each phase, so that its work counts to the phase that asked
    for it; None without a CUDA device."""
    headroom: MeasuredSteps | None
    """The steps with batches from memory; None if there could be none."""
    notes: tuple[str, ...]
    """What the figures do not say: why there is no headroom, what was not seen."""

    @property
    def table(self) -> MeasuredSteps:
        """The steps in which the time of each phase can be told apart."""
        return self.synchronized or self.steps

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "steps": self.steps.as_dict(),
            "synchronized": self.synchronized and self.synchronized.as_dict(),
            "headroom": self.headroom and self.headroom.as_dict(),
            "notes": self.notes,
        }


def measure(
    script: str,
    arguments: list[str],
    seconds: float,
    say: Say = print,
    is_module: bool = False,
    headroom: bool = True,
) -> Measurement:
    """Run a script until its steps have been measured, then end it.

    Args:
        script: any training script; it runs in the present folder, and writes what it always writes.
        arguments: the arguments of the script.
        seconds: how long its steps are measured; the steps with batches from memory half as long.
        say: told of the progress.
        is_module: the script is named as in `python -m package.train`.
        headroom: also measure with batches from memory.

    Raises:
        WorkshopError: there is no such script, or it never steps an optimizer.
        ScriptError: it broke before anything was measured.
    """
    if not (is_module or Path(script).is_file()):
        raise WorkshopError(f"{Path(script).absolute()} is not a file; name a Python script")
    command = ["-m", script] if is_module else [str(Path(script).absolute())]
    with (
        run_folder() as folder,
        MeasuredScript([*command, *arguments], folder, work_folder=Path.cwd(), patience_s=PATIENCE_S) as measured,
    ):
        say(f"waiting for the first steps of {script}")
        run = _Run(measured)
        run.take(WARM_UP_STEPS)
        say(f"measuring its steps for {seconds:g} s")
        steps = run.measure("as it is", seconds)
        if not steps:
            raise run.error or WorkshopError(f"{script} ended after {run.seen} optimizer steps; {_too_few(run.seen)}")
        synchronized = run.measure("synchronized", seconds / 2) if run.last and run.last.device == "cuda" else None
        notes = [f"The script crashed: {run.error}."] if run.error else []
        if run.batches["validation"]:
            notes.append("Batches without gradients, as for validation, are in the table as it is, not from memory.")
        if run.batches["elsewhere"]:
            notes.append("Batches are loaded in another thread: the wait for them is under other.")
        reached = None
        if not run.batches["training"]:
            notes.append("No headroom: no batch came from a DataLoader with gradients switched on.")
        elif headroom:
            reached, why_not = _headroom(run, seconds / 2, say)
            notes.extend([why_not] * bool(why_not))
        return Measurement(steps, synchronized, reached, tuple(notes))


def _headroom(run: "_Run", seconds: float, say: Say) -> tuple[MeasuredSteps | None, str]:
    """Measure the same loop with batches from memory; or say why that cannot be."""
    few_steps = run.seen // 2
    if run.ended:
        say("it has ended; starting it again, for the headroom")
        run.start()
    say("keeping a few batches, and measuring its steps with them from memory")
    run.keep(few_steps, seconds)
    run.batches["from_memory"] = 0
    run.settle()
    steps = run.measure("replay", seconds)
    if run.error:
        return None, f"No headroom: with the same few batches from memory, {run.error}."
    if not steps or not run.batches["from_memory"]:
        return None, "No headroom: the script took no batch from memory; let it train for more steps."
    return steps, ""


class _Run:
    """A script that is measured. It tells of each step, or of some short ones at a time; the clock is here."""

    def __init__(self, script: MeasuredScript) -> None:
        self.script = script
        self.seen = 0
        self.batches: Counter[str] = Counter()
        self.start()

    def start(self) -> None:
        """Run the script from its beginning."""
        self.script.start()
        self.reports = self.script.reports()
        self.last: StepReport | None = None
        self.heard_s = time.perf_counter()
        self.ended = False
        self.error: ScriptError | None = None

    def report(self) -> StepReport | None:
        """Return the report of the next step, or of some short ones; None when the script has ended."""
        try:
            report = next(self.reports, None)
        except ScriptError as error:  # what is known of its steps is not lost
            report, self.error = None, error
        self.ended = report is None
        if report:
            self.last, self.heard_s = report, time.perf_counter()
            self.seen += report.steps
            self.batches.update(vars(report.batches))
        return report

    def take(self, steps: int) -> None:
        """Let at least this number of steps go by."""
        enough = self.seen + steps
        while self.seen < enough and self.report():
            pass

    def measure(self, stage: str, seconds: float) -> MeasuredSteps | None:
        """Measure steps of one stage; None if the script ends before there is one."""
        self.script.send(SetStage(stage))
        taken: list[StepReport] = []
        begin, count = self.heard_s, 0
        while count < FEWEST_STEPS or self.heard_s - begin < seconds:
            before = self.heard_s
            if (report := self.report()) is None:
                break
            if report.stage == stage:
                begin = begin if taken else before
                taken.append(report)
                count += report.steps
        if not taken:
            return None
        phases = {str(phase): sum(report.phases[phase] for report in taken) for phase in Phase}
        return MeasuredSteps(count, self.heard_s - begin, phases, sum(report.samples for report in taken))

    def keep(self, steps: int, seconds: float) -> None:
        """Have batches kept: as many as there may be in some steps and seconds, but at least one."""
        self.script.send(SetStage("keep"))
        begin, enough = time.monotonic(), self.seen + steps
        while self.report():
            kept = self.batches["kept"]
            if kept >= MOST_KEPT or (kept and (self.seen >= enough or time.monotonic() - begin > seconds)):
                break
            if time.monotonic() - begin > LONGEST_KEEPING_S:
                break
        self.script.send(SetStage("replay"))

    def settle(self) -> None:
        """Wait until batches come from memory, and the workers have loaded all that they may load ahead."""
        give_up = time.monotonic() + LONGEST_SETTLING_S
        while (self.last is None or self.last.stage != "replay") and self.report():
            pass
        while not self.ended and self.script.process and time.monotonic() < give_up:
            begin, before_s = time.monotonic(), cpu_seconds(self.script.process.pid)
            while not self.ended and time.monotonic() < begin + 0.5:
                self.report()
            if cpu_seconds(self.script.process.pid) - before_s < SETTLED * (time.monotonic() - begin):
                return


def _too_few(steps: int) -> str:
    if steps:
        return "let it train for more steps"
    return "steps in processes that it starts, as torchrun does, are not seen"
