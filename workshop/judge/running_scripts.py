"""The two scripts of a contest as they run: how they start, warm up, and train in turn; either may have ranks."""

import math
import random
import socket
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack

from workshop.errors import WorkshopError
from workshop.judge.contest import Contest
from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.judge.ledger import Ledger
from workshop.judge.order_proof import repeats_order
from workshop.judge.step_proof import SampledSteps, alike
from workshop.judge.time_plan import FIRST_EPOCHS, TimePlan, why_long
from workshop.probe.messages import Proceed
from workshop.probe.phases import Phase
from workshop.runs.machine import threads_each
from workshop.runs.other_load import LoadMeter
from workshop.runs.script import Say, run_folder
from workshop.runs.script_error import CONSEQUENCE, ScriptError

NOTICE_S = 5.0
"""Seconds, at most, that the other ranks get to fail after the first: their messages tell which rank failed first."""

BUDGET_S = 90.0
"""Seconds, at most, from the start of a part's scripts to the end of the race; what follows takes a few more."""


class JudgedRanks(ExitStack):
    """The processes of one run of a candidate, or the first `count`; at the end they and their folders are removed."""

    def __init__(self, contest: Contest, count: int | None = None) -> None:
        super().__init__()
        count = count or contest.ranks
        folders = [self.enter_context(run_folder()) for _ in range(count)]
        command = contest.command(contest.candidate, folders[0], 0)  # shared by all: one cache, one results folder
        self.scripts: list[JudgedScript] = []
        group = _group(count) if contest.ranks > 1 else {}
        for rank, folder in enumerate(folders):
            place = {**group, "RANK": str(rank), "LOCAL_RANK": str(rank)} if group else {}
            options = {**contest.options, "environment": {**contest.options.get("environment", {}), **place}}
            self.scripts.append(self.enter_context(JudgedScript(command, folder, **options)))

    def epoch(self, sample_step: int | None = None) -> list[TimedEpoch]:
        """Let all ranks train for an epoch, and record the step `sample_step`, counted from 0.

        Raises:
            ScriptError: a rank broke; the others have been ended.
        """
        with ThreadPoolExecutor(len(self.scripts)) as threads:
            running = [threads.submit(script.epoch, Proceed(sample_step), pause=False) for script in self.scripts]
            try:
                wait(running, return_when=FIRST_EXCEPTION)
                if any(each.done() and each.exception() for each in running):
                    wait(running, timeout=NOTICE_S)
                    raise _cause([each.exception() if each.done() else None for each in running])
            except BaseException:  # Ctrl-C, too: the threads end with their processes
                for script in self.scripts:
                    script.stop()
                raise
        for script in self.scripts:
            script.pause()  # only once all have arrived: until then they may still communicate
        return [each.result() for each in running]


def _group(count: int) -> dict[str, str]:
    """Return the environment variables by which `count` ranks find each other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sizes = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    threads = {"OMP_NUM_THREADS": threads_each(count)} if count > 1 else {}
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **sizes, **threads}


def _cause(errors: Sequence[BaseException | None]) -> BaseException:
    """The error of the rank that failed first, as far as that can be told."""
    for error in errors:
        if error and (len(errors) == 1 or not isinstance(error, ScriptError)):
            return error
    failed = [(rank, error) for rank, error in enumerate(errors) if isinstance(error, ScriptError)]
    # A rank that was killed failed first; one that reports that its neighbour is gone failed later.
    rank, error = min(failed, key=lambda each: ((each[1].exit_code or 0) >= 0, CONSEQUENCE in each[1].output))
    return type(error)(f"rank {rank}: {error}", error.exit_code, error.output, error.script)


class RunningScripts(ExitStack):
    """Two scripts, run in turn; the candidate may train on several ranks.

    Attributes:
        tell: told once how long it will take.
        plan: the time of a contest that is no part's.
        begin_s: when they were started.
        deadline_s: when the race in a part must be over.
        solution_ratio: the solution's speedup on this machine, if it was steady on a quiet one.
        original_bytes: the most memory of the original, if it has been measured.
        candidate_s: the seconds of the candidate's last epoch before the race; 0 if there was none.
        load: tells what other programs used of the cores meanwhile.
    """

    def __init__(self, contest: Contest, say: Say, tell: Say | None = None) -> None:
        super().__init__()
        self.load = self.enter_context(LoadMeter())
        self.contest, self.say, self.subject = contest, say, contest.subject
        self.tell = tell or say
        self.plan = None if contest.is_part else TimePlan(contest.budget_s)
        self.begin_s, self.deadline_s = 0.0, math.inf
        self.solution_ratio: float | None = None
        self.original_bytes: int | None = None
        self.candidate_s = 0.0
        self.original = self.enter_context(contest.script(contest.original))
        self.ranks = self.enter_context(JudgedRanks(contest))
        for script in (self.original, *self.ranks.scripts):
            script.say = say
        self.samples = SampledSteps()  # of the candidate
        self.samples_of_original = SampledSteps()
        self.replaced_clocks: set[str] = set()
        self.steps_taken: list[int] = []  # in each epoch of the candidate

    @property
    def candidate(self) -> JudgedScript:
        """The script that is judged: its first rank, if there are several."""
        return self.ranks.scripts[0]

    @property
    def steps(self) -> int:
        """The number of optimizer steps in an epoch."""
        return self.original.epoch_steps or 0

    @property
    def has_no_epochs(self) -> bool:
        """Whether an epoch is only a number of steps, as in a part with a script of its own."""
        return self.contest.is_part and not self.contest.items

    @property
    def knows_solution(self) -> bool:
        """Whether the solution need not be run: its speedup is known, and no other program makes it another one."""
        return self.solution_ratio is not None and not self.load.so_far().busy

    def start(self) -> None:
        """Start the scripts, in a part both at once, and let them warm up."""
        name, self.begin_s = self.contest.original_name, time.monotonic()
        self.deadline_s = self.begin_s + BUDGET_S
        self.say(f"starting {self.contest.candidate.name} and {name}")
        self.original.begin()
        if self.steps and self.contest.is_part:
            step = self.some_step()
            for script in self.ranks.scripts:
                script.begin(step)
            self.train(1)  # before the original is waited for: a script that crashes at once is found out at once
        first = self.epoch(self.original)
        if not first.report.finished:
            raise WorkshopError(f"{name} has no step that could be compared: {self.original.seen()}")
        if warning := self.load.so_far().warning:
            self.tell(warning)
        if self.plan:
            self.original.alike = alike(self.original_ledger().steps)
            self.plan.original_s = first.seconds
            self.tell(self.plan.estimate(name, self.steps, first.report.whole_steps))
        for script in self.ranks.scripts:
            script.epoch_steps, script.alike = self.original.epoch_steps, self.original.alike
        stretch = f"{FIRST_EPOCHS * self.steps} steps" if self.has_no_epochs else f"{FIRST_EPOCHS} epochs"
        self.say_with_rest(f"watching what {self.contest.candidate.name} does, for {stretch}")
        self.train(FIRST_EPOCHS - len(self.steps_taken))
        # Beside others, a first epoch tells nothing; where no speedup is asked for, there is no race.
        if self.contest.items and self.contest.target != 1 and not warning:
            passed_s, original_s = time.monotonic() - self.begin_s, first.seconds_in(list(Phase))
            has_to_run = self.contest.solution is not None and not self.knows_solution
            if long := why_long(passed_s, original_s, self.candidate_s, has_to_run):
                self.tell(long)
        if not self.contest.is_part:
            self.original.draw_items()
        elif repeats_order(self.ledger(), self.steps):
            self.epoch(self.original)  # with a second epoch, it shows before the race whether it repeats its order, too

    def epoch(
        self, script: JudgedScript, sample_step: int | None = None, steps: int | None = None, pause: bool = True
    ) -> TimedEpoch:
        """Let one of the scripts train; the original keeps some batches, to measure its headroom later."""
        return script.epoch(Proceed(sample_step, steps, keep_batches=script is self.original), pause)

    def train(self, epochs: int) -> None:
        """Let the candidate train before the race, and record one step of each epoch.

        The original does so too, unless its steps are known to be reproducible.
        """
        for _ in range(epochs):
            step = self.some_step()
            if not self.steps_taken and self.steps > 1:
                step = max(step, 1)  # the original can be brought to any step but its first
            if self.plan:
                epoch = self.epoch(self.original, step)
                self.plan.original_s = epoch.seconds
                self.samples_of_original.add([epoch])
                self.samples_of_original.take(self.original)
            trained = self.ranks.epoch(step)
            self.candidate_s = trained[0].seconds
            if self.plan:
                self.plan.candidate_s = min(self.plan.candidate_s or math.inf, trained[0].seconds)
            self.replaced_clocks.update(*(epoch.report.replaced_clocks for epoch in trained))
            self.steps_taken.append(trained[0].report.steps)
            self.samples.add(trained)

    def align(self) -> None:
        """Let the script that is behind train until both have trained for the same number of epochs.

        Whatever they do only now and then, such as a validation, then falls into the same pairs.
        """
        behind, ahead = sorted((self.original, self.candidate), key=lambda script: script.epochs_in_run)
        for _ in range(ahead.epochs_in_run - behind.epochs_in_run):
            self.epoch(behind)

    def restart(self) -> None:
        """Start the candidate again, with a different seed, in the folder with the files it has left."""
        self.say("starting your script again, on the cache that it left")
        self.candidate.stop()
        again = self.contest.run(self.contest.candidate, self.candidate.folder, seed=1)
        again.epoch_steps, again.alike = self.candidate.epoch_steps, self.candidate.alike
        self.ranks.scripts[0] = self.enter_context(again)
        self.candidate.begin(self.some_step())

    def some_step(self, steps: int | None = None) -> int:
        """Choose a step of an epoch, or of so many steps: the script cannot know which one will be recomputed."""
        numbers, alike = range(steps or self.steps), self.original.alike
        return random.choice([each for each in numbers if not alike or each % self.steps in alike])

    def original_ledger(self) -> Ledger:
        """Return what the original has done so far."""
        return Ledger.of(self.original.folder)

    def ledger(self) -> Ledger:
        """Return what the candidate has done so far."""
        return Ledger.of_ranks([Ledger.of(script.folder) for script in self.ranks.scripts])

    def say_with_rest(self, text: str) -> None:
        """Tell of the progress, and how long the rest will take, if that is planned."""
        self.say(f"{text}; {self.plan.left}" if self.plan else text)
