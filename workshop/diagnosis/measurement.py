"""Where the time of any training script goes, step by step and line by line, and what mending it could bring."""

import time
from dataclasses import dataclass
from pathlib import Path

from workshop.diagnosis.measured_script import MeasuredScript
from workshop.diagnosis.measured_steps import MeasuredSteps
from workshop.diagnosis.samples import Observations, read_observations
from workshop.diagnosis.staged_run import StagedRun
from workshop.errors import WorkshopError
from workshop.probe.messages import Circumstances
from workshop.probe.stack_sampler import WRITTEN_EVERY_S
from workshop.processes.machine import usable_cores
from workshop.processes.script import Say, run_folder

WARM_UP_STEPS = 2
PATIENCE_S = 600.0

CLOSER_STEPS = 2
"""The backward passes of so many steps are cut into lines. They, too, warm the script up."""

INTERRUPTED = "Stopped by Ctrl-C: this is what was seen until then, without the headroom."


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
    circumstances: Circumstances
    """What decided how fast a step was computed."""
    observations: Observations
    """What was noted in the script's processes."""

    @property
    def table(self) -> MeasuredSteps:
        """The steps in which the time of each phase can be told apart."""
        return self.synchronized or self.steps


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
        run = StagedRun(measured)
        run.take(WARM_UP_STEPS)
        _look_closer(run)
        say(f"measuring its steps for {seconds:g} s")
        steps = run.measure("as it is", seconds)
        if not steps and run.interrupted:
            raise KeyboardInterrupt
        if not steps:
            raise run.error or WorkshopError(f"{script} ended after {run.seen} optimizer steps; {_too_few(run.seen)}")
        circumstances = run.circumstances
        synchronized = run.measure("synchronized", seconds / 2) if circumstances.device == "cuda" else None
        notes = [f"The script crashed: {run.error}."] if run.error else []
        if run.batches["elsewhere"]:
            notes.append("Batches are loaded in another thread: the wait for them is under other.")
        reached, why_not = _headroom(run, seconds / 2, headroom, say)
        notes.extend([why_not] * bool(why_not))
        time.sleep(1.2 * WRITTEN_EVERY_S)  # the last samples are still in its memory
        measured.stop()
        return Measurement(steps, synchronized, reached, tuple(notes), circumstances, read_observations(folder))


def _headroom(run: StagedRun, seconds: float, wanted: bool, say: Say) -> tuple[MeasuredSteps | None, str]:
    """Measure the same loop with batches from memory; or say why that cannot be."""
    if run.interrupted:
        return None, INTERRUPTED
    if not run.batches["training"]:
        return None, "No headroom: no batch came from a DataLoader with gradients switched on."
    if not wanted:
        return None, ""
    few_steps = run.seen // 2
    if run.ended:
        say("it has ended; starting it again, for the headroom")
        run.start()
        run.take(WARM_UP_STEPS)
    say("keeping a few batches, and measuring its steps with them from memory")
    run.keep(few_steps, seconds)
    run.batches["from_memory"] = 0
    run.settle()
    replayed = run.measure("replay", seconds)
    if run.interrupted:
        return None, INTERRUPTED
    if run.error:
        return None, f"No headroom: with the same few batches from memory, {run.error}."
    if not replayed or not run.batches["from_memory"]:
        return None, "No headroom: the script took no batch from memory; let it train for more steps."
    return replayed, ""


def _look_closer(run: StagedRun) -> None:
    """Have a few of the first steps looked at more closely than steps can be whose time is measured."""
    run.measure("closer", 0.0, CLOSER_STEPS)
    for trial in _worth_a_trial(run.circumstances):
        run.measure(f"trial {trial}", 0.0, 1)


def _worth_a_trial(circumstances: Circumstances) -> list[str]:
    """What slows the computing down, and can be changed on a copy of the model."""
    if circumstances.compiled:
        return []
    slows = {
        "one-thread": circumstances.device == "cpu" and circumstances.threads == 1 < usable_cores(),
        "anomaly-mode": circumstances.anomaly_mode,
        "float64": circumstances.double,
    }
    return [name for name, holds in slows.items() if holds]


def _too_few(steps: int) -> str:
    if steps:
        return "let it train for more steps"
    return "steps in processes that it starts, as torchrun does, are not seen"
