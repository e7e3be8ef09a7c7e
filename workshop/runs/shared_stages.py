"""The stages that instruments share: the script as it is, and with batches from memory."""

from workshop.errors import WorkshopError
from workshop.probe.messages import AsItIs, FromMemory
from workshop.runs.measured_steps import MeasuredSteps, Stage
from workshop.runs.script import ScriptError, UnseenError
from workshop.runs.staged_run import StagedRun

MIN_STEPS = 10
"""Steps, at least: a script that trains for fewer may end before any was measured."""

INTERRUPTED = "Stopped by Ctrl-C: this is what was seen until then, without the headroom."


def measure_as_it_is(run: StagedRun, name: str, says: str, seconds: float) -> Stage:
    """Measure the script as it is, with this said first if it still runs.

    Raises:
        WorkshopError: no step was measured.
        ScriptError: it broke before.
    """
    if not run.ended:
        run.script.tell(says)
    if as_it_is := None if run.ended else run.measure(AsItIs(), seconds):
        return as_it_is
    if run.interrupted:
        raise KeyboardInterrupt
    raise run.error or WorkshopError(f"{name} ended {too_early(run)}")


def measure_headroom(
    run: StagedRun, as_it_is: Stage, seconds: float, wanted: bool = True
) -> tuple[MeasuredSteps | None, str]:
    """Measure the same loop with batches from memory; or say why that cannot be."""
    if run.interrupted:
        return None, INTERRUPTED
    if not run.batches["training"]:
        return None, "No headroom: the training takes no batches from a DataLoader."
    if not wanted:
        return None, ""
    few_steps = run.seen // 2
    if run.ended:
        run.start_again("for the headroom")
    run.script.tell("keeping a few batches, and measuring its steps with them from memory")
    run.keep(few_steps, seconds)
    run.batches["from_memory"] = 0
    run.go_to(FromMemory())
    run.settle()
    replayed = run.measure(FromMemory(), seconds)
    if run.interrupted:
        return None, INTERRUPTED
    if run.error:
        return None, f"No headroom: with the same few batches from memory, {how_it_ended(run.error)}."
    if not replayed or not run.batches["from_memory"]:
        return None, "No headroom: the script asked for no further batch while they came from memory."
    return replayed.like(as_it_is).together, ""


def too_early(run: StagedRun) -> str:
    """Return when a script ended that had no step measured, and what was seen of it."""
    if run.seen:
        return f"after {run.seen} steps; let it train for more, {MIN_STEPS} steps at least"
    return f"before a training step was seen: {run.script.seen()}"


def how_it_ended(error: ScriptError) -> str:
    """Return what became of a script while something was tried."""
    return f"nothing more was seen of the script: {error}" if isinstance(error, UnseenError) else "the script crashed"
