"""Where the time of any training script goes, step by step, and what it could gain from a better data pipeline."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from workshop.errors import WorkshopError
from workshop.harness.child import Child, ScriptError
from workshop.harness.phases import MOST_KEPT, PHASES

WARM_UP_STEPS = 3
FEWEST_STEPS = 5
"""That are measured at least, however long they take."""

SETTLED = 0.05
"""Of a core: workers that use less have filled their queues, and are in nobody's way."""

LONGEST_SETTLING_S = 15.0
LONGEST_KEEPING_S = 60.0
PATIENCE_S = 600.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Steps:
    """Steps in a row."""

    count: int
    wall_s: float
    """By the clock of the process that measures, which is not the one that trains."""
    phases_s: dict[str, float]
    """Seconds in each of `phases.PHASES`, by the clock of the process that trains."""
    samples: int

    @property
    def samples_per_s(self) -> float:
        """Through the training loop."""
        return self.samples / self.wall_s

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"samples_per_s": self.samples_per_s}


@dataclass(frozen=True)
class Measurement:
    """What was found of a script."""

    steps: Steps
    """As it is."""
    synchronized: Steps | None
    """On a CUDA device: with a wait at the border of each phase, so that its work counts where it was asked for."""
    headroom: Steps | None
    """With batches from memory."""
    notes: tuple[str, ...]
    """What the figures do not say: why there is no headroom, what was not seen."""

    @property
    def table(self) -> Steps:
        """Where each phase's time is told apart."""
        return self.synchronized or self.steps

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
        arguments: its own.
        seconds: how long its steps are measured; those with batches from memory half as long.
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
    child = Child([*command, *arguments], Path("/nonexistent"), patience_s=PATIENCE_S, work=Path.cwd(), measure=True)
    with child:
        say(f"waiting for the first steps of {script}")
        run = _Run(child)
        run.take(WARM_UP_STEPS)
        say(f"measuring its steps for {seconds:g} s")
        steps = run.measure("as it is", seconds)
        if not steps:
            raise run.error or WorkshopError(f"{script} ended after {run.seen} optimizer steps; {_too_few(run.seen)}")
        synchronized = run.measure("synchronized", seconds / 2) if run.last["device"] == "cuda" else None
        notes = [f"The script broke: {run.error}."] if run.error else []
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


def _headroom(run: "_Run", seconds: float, say: Say) -> tuple[Steps | None, str]:
    """The same loop with batches from memory, or why not."""
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

    def __init__(self, child: Child) -> None:
        self.child = child
        self.seen = 0
        self.batches: Counter[str] = Counter()
        self.start()

    def start(self) -> None:
        """Run the script from its beginning."""
        self.child.start()
        self.messages = self.child.messages()
        self.last: dict[str, Any] = {"stage": None}
        self.heard_s = time.perf_counter()
        self.ended = False
        self.error: ScriptError | None = None

    def command(self, stage: str) -> None:
        """Have the steps belong to another stage, from the one after next on."""
        self.child.say(stage=stage)

    def report(self) -> dict[str, Any] | None:
        """The next step, or some short ones; None when the script has ended."""
        try:
            message = next(self.messages, None)
        except ScriptError as error:  # what is known of its steps is not lost
            message, self.error = None, error
        self.ended = message is None
        if message:
            self.last, self.heard_s = message, time.perf_counter()
            self.seen += message["steps"]
            self.batches.update(message["batches"])
        return message

    def take(self, steps: int) -> None:
        """Let so many steps go by, at least."""
        enough = self.seen + steps
        while self.seen < enough and self.report():
            pass

    def measure(self, stage: str, seconds: float) -> Steps | None:
        """Measure steps of one stage; None if the script ends before there is one."""
        self.command(stage)
        taken: list[dict[str, Any]] = []
        begin, count = self.heard_s, 0
        while count < FEWEST_STEPS or self.heard_s - begin < seconds:
            before = self.heard_s
            if (message := self.report()) is None:
                break
            if message["stage"] == stage:
                begin = begin if taken else before
                taken.append(message)
                count += message["steps"]
        if not taken:
            return None
        phases = {phase: sum(message["phases"][phase] for message in taken) for phase in PHASES}
        return Steps(count, self.heard_s - begin, phases, sum(message["samples"] for message in taken))

    def keep(self, steps: int, seconds: float) -> None:
        """Have batches kept: as many as there may be, in so many steps and seconds, but one at least."""
        self.command("keep")
        begin, enough = time.monotonic(), self.seen + steps
        while self.report():
            kept = self.batches["kept"]
            if kept >= MOST_KEPT or (kept and (self.seen >= enough or time.monotonic() - begin > seconds)):
                break
            if time.monotonic() - begin > LONGEST_KEEPING_S:
                break
        self.command("replay")

    def settle(self) -> None:
        """Wait until batches come from memory, and the workers have loaded all that they may load ahead."""
        give_up = time.monotonic() + LONGEST_SETTLING_S
        while self.last["stage"] != "replay" and self.report():
            pass
        while not self.ended and self.child.process and time.monotonic() < give_up:
            begin, before_s = time.monotonic(), _workers_s(self.child.process.pid)
            while not self.ended and time.monotonic() < begin + 0.5:
                self.report()
            if _workers_s(self.child.process.pid) - before_s < SETTLED * (time.monotonic() - begin):
                return


def _too_few(steps: int) -> str:
    if steps:
        return "let it train for more steps"
    return "steps in processes that it starts, as torchrun does, are not seen"


def _workers_s(pid: int) -> float:
    """Seconds of CPU time that the descendants of a process have used."""
    total = 0.0
    try:
        for process in psutil.Process(pid).children(recursive=True):
            total += sum(process.cpu_times()[:2])
    except psutil.NoSuchProcess:
        pass
    return total
