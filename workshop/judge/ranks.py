"""Judges a script that trains on many ranks, started as torchrun starts them, beside the original in one process."""

import random
import socket
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from typing import Self

from workshop.judge.contest import Contest
from workshop.judge.judged_script import Epoch
from workshop.judge.ledger import Ledger
from workshop.judge.proof import NO_LOSS, Evidence
from workshop.judge.rank_proof import differences_of_ranks, why_alone
from workshop.judge.verdict import Outcome, Verdict, other_work
from workshop.probe.messages import Proceed
from workshop.processes.machine import threads_each, usable_cores
from workshop.processes.script import Say, ScriptError, run_folder
from workshop.processes.script_output import CONSEQUENCE

EPOCHS = 3
PAIRS = 3
CORES_FOR_A_RANK = 4
"""With fewer, two processes on a CPU only take the cores from each other."""

NOTICE_S = 5.0
"""After one rank has failed, the others get this time to fail, too: what they say tells which one was the first."""


class Ranks:
    """The processes of one run.

    Args:
        contest: how the candidate is run.
        count: the number of ranks.
    """

    def __init__(self, contest: Contest, count: int) -> None:
        self._open = ExitStack()
        folders = [self._open.enter_context(run_folder()) for _ in range(count)]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        place = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
        }
        if count > 1:
            place["OMP_NUM_THREADS"] = threads_each(count)
        # All have the command of the first rank: one cache, and one folder for the results.
        command = contest.command(contest.candidate, folders[0], 0)
        self.scripts = []
        for rank, folder in enumerate(folders):
            own = {**contest.environment, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            of_rank = replace(contest, command=lambda *_: command, environment=own)
            self.scripts.append(self._open.enter_context(of_rank.run(contest.candidate, folder)))

    def epoch(self, sample_step: int | None = None) -> list[Epoch]:
        """Let all ranks train for an epoch.

        Args:
            sample_step: record this step, counted from 0.

        Raises:
            ScriptError: one broke, and the others have been ended.
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
            script.pause()  # not before all are there: they may still talk to each other
        return [each.result() for each in running]

    def ledgers(self) -> list[Ledger]:
        """Return what each rank has done."""
        return [Ledger.of(script.folder) for script in self.scripts]

    def close(self) -> None:
        """Kill all ranks, and delete their folders."""
        self._open.close()


class RanksBench:
    """The candidate on several ranks, and the original in one process.

    Args:
        contest: which scripts, and how they are run.
        ranks: the number of ranks.
        say: told of the progress.
        on_cpu: whether the ranks train on the CPU.
    """

    def __init__(self, contest: Contest, ranks: int, say: Say, on_cpu: bool) -> None:
        self.contest, self.say, self.on_cpu = contest, say, on_cpu
        self._open = ExitStack()
        self.original = self._open.enter_context(contest.script(contest.original))
        self.ranks = Ranks(contest, ranks)
        self._open.callback(self.ranks.close)
        self.epochs: list[list[Epoch]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def subject(self) -> str:
        """What the verdict is about."""
        return self.contest.subject

    @property
    def count(self) -> int:
        """The number of ranks."""
        return len(self.ranks.scripts)

    def train(self) -> None:
        """Let both train for a few epochs; a step of each epoch is recorded, to be recomputed."""
        self.say("starting the untouched script, in one process")
        for _ in range(EPOCHS):
            self.original.epoch()
        self.say(f"starting {self.contest.candidate.name} on {self.count} ranks")
        for _ in range(EPOCHS):
            self.epochs.append(self.ranks.epoch(random.randrange(self.original.epoch_steps or 1)))

    def refusal(self) -> Verdict | None:
        """Return the verdict on ranks that are not one training, or whose training is another one; None if all is well.

        It must be called after `train`.
        """
        ledgers = self.ranks.ledgers()
        if alone := why_alone(ledgers):
            return Verdict(self.subject, Outcome.NOT_YET, (alone,), next=f"workshop show {self.subject}")
        paths = [[epoch.sample for epoch in taken if epoch.sample] for taken in self.epochs]
        whole = [samples for samples in paths if len(samples) == len(ledgers)]
        recomputed = [self.original.recompute(*samples) for samples in whole] or [NO_LOSS]
        clocks = sorted({name for taken in self.epochs for epoch in taken for name in epoch.report.replaced_clocks})
        files = [path for script in self.ranks.scripts for path in script.recorded_transforms()]
        repeated, own = (
            list(self.original.repeat(some).values()) for some in (files, self.original.recorded_transforms())
        )
        evidence = Evidence(self.contest.wasted_time_s, clocks, recomputed, repeated=repeated, own_repeated=own)
        complaints = differences_of_ranks(Ledger.of(self.original.folder), ledgers, evidence)
        return other_work(self.subject, complaints, next=f"workshop show {self.subject}")

    def speed(self) -> str:
        """Return a sentence that says how much faster several ranks are than one, where the machine can tell."""
        cores = usable_cores()
        if self.on_cpu and cores < CORES_FOR_A_RANK * self.count:
            return (
                f"whether {self.count} ranks are faster than one cannot be measured here: it takes a GPU, or "
                f"{CORES_FOR_A_RANK} cores, for each, and there are {cores} cores"
            )
        self.say("starting one rank beside them, to see how much faster they are")
        one = Ranks(self.contest, 1)
        self._open.callback(one.close)
        one.epoch()
        ratios = [_seconds(one) / _seconds(self.ranks) for _ in range(PAIRS)]
        return f"{self.count} ranks are {median(ratios):.2f} times as fast as one"


def _seconds(ranks: Ranks) -> float:
    begin = time.perf_counter()
    ranks.epoch()
    return time.perf_counter() - begin


def _cause(errors: Sequence[BaseException | None]) -> BaseException:
    """The error of the rank that failed first, as far as that can be told."""
    for error in errors:
        if error and not isinstance(error, ScriptError):
            return error
    failed = [(rank, error) for rank, error in enumerate(errors) if isinstance(error, ScriptError)]
    # One that was killed has not noticed anything; one that says that its neighbour is gone has.
    rank, error = min(failed, key=lambda each: ((each[1].exit_code or 0) >= 0, CONSEQUENCE in each[1].output))
    return ScriptError(f"rank {rank}: {error}", error.exit_code, error.output, error.script)
