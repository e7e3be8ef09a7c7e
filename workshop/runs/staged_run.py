"""A script that is measured in stages: unchanged, with batches from memory, and so on."""

import linecache
import math
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from modulefinder import ModuleFinder
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.notebooks.notebook_file import as_typed
from workshop.probe.log import log
from workshop.probe.messages import AsItIs, Circumstances, FromMemory, KeepBatches, LoadWith, SetStage, StepReport
from workshop.probe.settings import MAX_KEPT, WRITTEN_EVERY_S
from workshop.runs.measured_script import MeasuredScript, staged_script
from workshop.runs.measured_steps import MeasuredSteps, Stage
from workshop.runs.other_load import LoadMeter, busy_seconds
from workshop.runs.process_tree import cpu_seconds, descendants
from workshop.runs.script import Say, run_folder
from workshop.runs.script_error import ScriptError, UnseenError

WARM_UP_STEPS = 2
"""Steps that are left out at the beginning: libraries start up in them."""

MIN_STEPS = 5
"""Steps that are measured, at least, however long they take."""

LAST_WRITTEN_S = 1.2 * WRITTEN_EVERY_S
"""Seconds after which a process has written its last samples to disk."""

MAX_SETTLING_S = 15.0
"""Seconds, at most, until workers have filled their queues."""

INTERRUPTED = "Stopped by Ctrl-C: this is what was seen until then, without the headroom."


class StagedRun:
    """Takes a script through stages, and times the steps that it reports, each or several short ones at a time.

    Attributes:
        seen: the number of steps so far, in all runs.
        batches: the number of batches so far, by the fields of `BatchCounts`.
        in_epoch: the number of steps since an epoch of the training's DataLoader began.
        epoch_steps: the number of steps of the epoch before; 0 in the first one.
        last: the last report of the present run.
        lead: the rank that the figures describe: the first to report.
        others: the reports of the other ranks.
        unit: what is counted as a step.
        waits_s: how long the training has waited for each DataLoader, by its number.
        started_s: how long the DataLoader that was tried last took to its first batch; 0 if none came.
        busy_cores: how many cores were busy on average while it was measured; 0 if that is not known.
        interrupted: whether the script has ended for this process because Ctrl-C was pressed.
        crash: why the first run that ended too early did; None if none has.
    """

    def __init__(self, script: MeasuredScript) -> None:
        self.script = script
        self.seen = 0
        self.batches: Counter[str] = Counter()
        self.interrupted = False
        self.crash: ScriptError | None = None
        self.lead: int | None = None
        self.others: dict[int, list[StepReport]] = defaultdict(list)
        self.unit = ""
        self.waits_s: defaultdict[int, float] = defaultdict(float)
        self.started_s = self.busy_cores = 0.0
        self.start()

    def start(self) -> None:
        """Run the script from its beginning."""
        self.script.start()
        self.reports = self.script.reports()
        self.last: StepReport | None = None
        self.heard_s = self.now()
        self._begun_s = time.monotonic()
        self.in_epoch = self.epoch_steps = 0
        self.ended = False
        self.error: ScriptError | None = None

    def start_again(self, what: str) -> None:
        """Run a script once more that has come to its end before all was measured."""
        self.script.tell(f"it has ended; starting it again, {what}")
        self.start()
        self.take(WARM_UP_STEPS)

    def now(self) -> float:
        """Return the time of the clock that steps are measured by."""
        return time.perf_counter()

    @property
    def circumstances(self) -> Circumstances:
        """What decided how fast the last step was computed."""
        return self.last.circumstances if self.last else Circumstances()

    def report(self) -> StepReport | None:
        """Return the report of the next step, or of several short ones; None if the script has ended."""
        try:
            while report := next(self.reports, None):
                self.lead = report.rank if self.lead is None else self.lead
                if report.rank == self.lead:
                    break
                assert report.rank is not None
                self.others[report.rank].append(report)
        except ScriptError as error:  # what is known of its steps is not lost
            report, self.error = None, error
            self._look_at(error)
        except KeyboardInterrupt:
            report, self.interrupted = None, True
        self.ended = report is None
        if report:
            if report.unit != self.unit:
                log(f"a training step is the {report.unit}")
            self.last, self.unit = report, report.unit
            self.heard_s = self.now()
            self.seen += report.steps
            if report.epochs_begun:
                self.in_epoch, self.epoch_steps = 0, self.in_epoch
            self.in_epoch += report.steps
            self.batches.update(vars(report.batches))
            for loader, seconds in report.waits_s:
                self.waits_s[loader] += seconds
            self.started_s = report.started_s or self.started_s
        return report

    def _look_at(self, error: ScriptError) -> None:
        """Keep the first crash, and see whether the script also crashes alone, within the time that it took here."""
        if self.crash or isinstance(error, UnseenError):
            return
        self.crash = error
        if error.exit_code in (None, 0, -signal.SIGKILL):  # it hung, or there was no room for it
            return
        seconds = time.monotonic() - self._begun_s
        self.script.tell(f"it has crashed; running it alone, for {seconds:.0f} s at most, to see if it crashes, too")
        try:
            error.alone = self.script.run_alone(seconds)
        except KeyboardInterrupt:
            self.interrupted = True

    def take(self, steps: int, seconds: float = math.inf) -> bool:
        """Let at least this many steps go by; return whether they took no more than `seconds`."""
        enough, give_up = self.seen + steps, time.monotonic() + seconds
        while self.seen < enough and time.monotonic() < give_up and self.report():
            pass
        return self.seen >= enough

    def take_epoch(self, seconds: float) -> None:
        """Let the present epoch come to its end, but for no more than `seconds`."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up and (report := self.report()) and not report.epochs_begun:
            pass

    def measure(self, stage: SetStage, seconds: float, fewest: int = MIN_STEPS) -> Stage | None:
        """Measure steps of a stage for at least `seconds`; None if the script ends before the first."""
        self.script.send(stage)
        log(f"stage: {stage}")
        taken: list[StepReport] = []
        begin, unit = self.heard_s, self.unit

        while sum(each.steps for each in taken) < fewest or self.heard_s - begin < seconds:
            before = self.heard_s
            if (report := self.report()) is None:
                break
            if report.unit != unit:  # the earlier reports were not steps
                taken, unit = [], report.unit
            if report.stage == stage:
                begin = begin if taken else before
                taken.append(report)
        return Stage(taken, self.heard_s - begin) if taken else None

    def of_others(self, stage: SetStage) -> dict[int, MeasuredSteps]:
        """Return the steps that the other ranks took in a stage, by rank."""
        taken = {rank: [each for each in reports if each.stage == stage] for rank, reports in self.others.items()}
        return {rank: Stage(each).together for rank, each in taken.items() if each}

    def keep(self, steps: int, seconds: float) -> None:
        """Have the script keep batches for this many steps or seconds, but at least one batch."""
        self.script.send(KeepBatches())
        begin, enough = time.monotonic(), self.seen + steps
        while self.report():
            kept, passed_s = self.batches["kept"], time.monotonic() - begin
            is_enough = kept >= MAX_KEPT or (kept and (self.seen >= enough or passed_s > seconds))
            if is_enough or passed_s > 60.0:  # a script that asks for no batch for so long keeps none
                break

    def measure_loading(
        self, to: LoadWith, seconds: float, warm_up_s: float, fewest: int = MIN_STEPS, patient: bool = False
    ) -> Stage | None:
        """Measure steps whose batches other DataLoaders load; None if these load none, or the script ends.

        Args:
            to: the stage, with the settings of the DataLoaders.
            seconds: how long, at least.
            warm_up_s: how long it takes at most until what was loaded ahead at first is gone.
            fewest: the smallest number of steps.
            patient: measure also if it takes longer; else it is given up.
        """
        self.started_s = 0.0
        self.go_to(to)
        begun = self.take(2 * to.settings.ahead, warm_up_s)
        self.batches["with_workers"] = 0
        before_s, busy_s = time.monotonic(), busy_seconds()
        gave_up = self.last is not None and bool(self.last.failure)
        steps = self.measure(to, seconds, fewest) if (begun or patient) and not gave_up else None
        used_s = (busy_seconds() or 0.0) - (busy_s or 0.0)
        self.busy_cores = used_s / max(time.monotonic() - before_s, 1e-3)
        failed = self.last is not None and self.last.failure
        return steps if self.batches["with_workers"] and not failed else None

    def go_to(self, stage: SetStage) -> None:
        """Begin a stage, and wait for the end of its first step."""
        self.script.send(stage)
        while (self.last is None or self.last.stage != stage) and self.report():
            pass

    def wait_until_written(self) -> None:
        """Wait until the script's processes have written all that they noted so far."""
        time.sleep(LAST_WRITTEN_S)

    def settle(self) -> None:
        """Wait until the workers have prefetched all that they may."""
        log("waiting until the workers have loaded all that they may load ahead")
        process, give_up = self.script.process, time.monotonic() + MAX_SETTLING_S
        while process and descendants(process.pid) and not self.ended and time.monotonic() < give_up:
            trainers = [pid for pids in self.script.trainers.values() for pid in pids]
            begin, before_s = time.monotonic(), cpu_seconds(process.pid, trainers)
            while not self.ended and time.monotonic() < begin + 0.5:
                self.report()
            used_s = cpu_seconds(process.pid, trainers) - before_s
            if used_s < 0.05 * (time.monotonic() - begin):  # so little of a core disturbs nothing
                return


def keep_sources(*started: str) -> None:
    """Keep the scripts among what is started, and what they import of their folders, for `linecache` as they are now.

    So lines are read as they ran, also where somebody edits them meanwhile.
    """
    for path in (Path(each).absolute() for each in started if each.endswith(".py")):
        finder = ModuleFinder([str(path.resolve().parent), os.getcwd()])
        with suppress(Exception):  # of what cannot be read, others tell
            finder.run_script(str(path))
        for file in filter(None, (str(path), *(getattr(each, "__file__", None) for each in finder.modules.values()))):
            linecache.checkcache(file)
            linecache.getlines(file)


@contextmanager
def led(
    script: str, arguments: list[str], is_module: bool, say: Say, then: str, memory: bool = False
) -> Iterator[tuple[StagedRun, LoadMeter]]:
    """Start a script, and end it when the context does; meanwhile, it is metered what other programs use.

    Args:
        script: any training script; it runs in the present folder, and writes what it always writes. Processes
            that it starts to train, such as ranks, are measured, too; "torchrun" starts them itself.
        arguments: the arguments of the script.
        is_module: the script is named as in `python -m package.train`.
        say: told of the progress.
        then: what comes after its first steps, in words.
        memory: its memory is measured.

    Raises:
        WorkshopError: there is no such script.
        ScriptError: it cannot be parsed.
    """
    with run_folder() as folder, staged_script(script, arguments, is_module, folder) as measured, LoadMeter() as load:
        measured.say, measured.memory = say, memory
        started = f"{script.replace('.', os.sep)}.py" if is_module else script, *arguments
        threading.Thread(target=keep_sources, args=started, daemon=True).start()  # large projects take a while
        say(f"waiting for the first steps of {as_typed(script)}; from then on {then}")
        yield StagedRun(measured), load


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
    raise run.error or WorkshopError(f"{as_typed(name)} ended {too_early(run)}")


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
        return f"after {run.seen} steps, with which it only warmed up; let it train for {max(10, 5 * run.seen)} or more"
    return f"before a training step was seen: {run.script.seen()}"


def how_it_ended(error: ScriptError) -> str:
    """Return what became of a script while something was tried."""
    return f"nothing more was seen of the script: {error}" if isinstance(error, UnseenError) else "the script crashed"
