"""Where a script is judged that trains on many ranks, started as by torchrun, beside the original in one process."""

import random
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Self

import numpy as np
import torch

from workshop.harness.bench import Say
from workshop.harness.child import Epoch, ScriptError
from workshop.harness.epochs import epochs
from workshop.harness.ledger import Ledger
from workshop.harness.proof import Evidence, differences
from workshop.harness.trial import Trial
from workshop.harness.verdict import Outcome, Verdict
from workshop.torchrun import available_cores, threads_each

EPOCHS = 3
PAIRS = 3
CORES_FOR_A_RANK = 4
"""With fewer, two processes on a CPU only take the cores from each other."""

SAME = 1e-5
"""Relative, of parameters on two ranks."""

NOTICE_S = 5.0
"""So long after one has failed, the others are given to fail, too: which was the first, is seen by what they say."""

CONSEQUENCE = " by peer"
"""Torch says "Connection closed by peer", or "reset by peer", in a rank whose neighbour has ended."""


class Ranks:
    """The processes of one run.

    Args:
        trial: the part and the script.
        count: how many.
    """

    def __init__(self, trial: Trial, count: int) -> None:
        self.children = [trial.child(trial.candidate) for _ in range(count)]
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
        for rank, child in enumerate(self.children):
            child.command = self.children[0].command  # with one cache, and one folder for the results
            child.environment = {**child.environment, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}

    def epoch(self, sample_step: int | None = None) -> list[Epoch]:
        """Let all of them train for an epoch.

        Raises:
            ScriptError: one broke, and the others have been ended.
        """
        with ThreadPoolExecutor(len(self.children)) as threads:
            running = [threads.submit(child.epoch, sample_step, pause=False) for child in self.children]
            try:
                wait(running, return_when=FIRST_EXCEPTION)
                if any(each.done() and each.exception() for each in running):
                    wait(running, timeout=NOTICE_S)
                    raise _cause([each.exception() if each.done() else None for each in running])
            except BaseException:  # Ctrl-C, too: the threads end with their processes
                self.stop()
                raise
        for child in self.children:
            child.pause()  # not before all are there: they may still talk to each other
        return [each.result() for each in running]

    def ledgers(self) -> list[Ledger]:
        """What each has done."""
        return [Ledger.of(child.folder) for child in self.children]

    def stop(self) -> None:
        """Kill them all."""
        for child in self.children:
            child.stop()

    def close(self) -> None:
        """Kill them all, and delete their folders."""
        for child in self.children:
            child.close()


def _cause(errors: Sequence[BaseException | None]) -> BaseException:
    """The error of the rank that failed first, as far as that can be told."""
    for error in errors:
        if error and not isinstance(error, ScriptError):
            return error
    failed = [(rank, error) for rank, error in enumerate(errors) if isinstance(error, ScriptError)]
    # One that was killed has not noticed anything; one that says that its neighbour is gone has.
    rank, error = min(failed, key=lambda each: ((each[1].exit_code or 0) >= 0, CONSEQUENCE in each[1].output))
    return ScriptError(f"rank {rank}: {error}", error.exit_code, error.output)


class RanksBench:
    """The candidate on several ranks, and the original in one process."""

    def __init__(self, trial: Trial, say: Say) -> None:
        if trial.device is None and torch.cuda.device_count() < trial.part.ranks:
            trial = replace(trial, device="cpu")  # a GPU takes one rank
        self.trial, self.say, self.subject = trial, say, trial.part.name
        self.lives = ExitStack()
        self.original = self.lives.enter_context(trial.child(trial.part.original_script))
        self.ranks = Ranks(trial, trial.part.ranks)
        self.lives.callback(self.ranks.close)
        self.samples: list[list[Epoch]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lives.close()

    def train(self) -> None:
        """Let both train for a few epochs; a step of each is recorded, to be computed over again."""
        self.say("the untouched script, in one process")
        for _ in range(EPOCHS):
            self.original.epoch()
        self.say(f"yours, on {self.trial.part.ranks} ranks")
        for _ in range(EPOCHS):
            self.samples.append(self.ranks.epoch(random.randrange(self.original.epoch_steps or 1)))

    def refusal(self) -> Verdict | None:
        """The verdict on a candidate whose ranks are not one training, or whose training is another one."""
        ledgers = self.ranks.ledgers()
        known = [ledger.model.ranks for ledger in ledgers if ledger.model]
        if set(known) != {len(ledgers)}:
            alone = (
                f"the {len(ledgers)} ranks know nothing of each other: each trains a model of its own on all items; "
                "torch.distributed.init_process_group is missing"
            )
            return Verdict(self.subject, Outcome.NOT_YET, (alone,), next=f"workshop show {self.subject}")
        complaints = [*check_parameters(ledgers), *check_steps(ledgers)] or self._differences(ledgers)
        where = f"workshop show {self.subject}: what can go wrong"
        return Verdict(self.subject, Outcome.OTHER_WORK, tuple(complaints), next=where) if complaints else None

    def _differences(self, ledgers: Sequence[Ledger]) -> list[str]:
        paths = [[epoch.sample for epoch in taken if epoch.sample] for taken in self.samples]
        whole = [samples for samples in paths if len(samples) == len(ledgers)]
        recomputed = [self.original.recompute(*samples) for samples in whole]
        clocks = sorted({name for taken in self.samples for epoch in taken for name in epoch.replaced_clocks})
        evidence = Evidence(
            self.trial.config.wasted_time, clocks, recomputed or [{"error": "no loss function of torch.nn was seen"}]
        )
        if any(result.get("apart", 0.0) > SAME for result in recomputed):
            return ["at a sampled step, the ranks have different parameters: they do not train one model"]
        return differences(Ledger.of(self.original.folder), Ledger.of_ranks(ledgers), evidence)

    def speed(self) -> str:
        """How much faster several ranks are than one, as a sentence: where the machine can tell."""
        count, cores = len(self.ranks.children), available_cores()
        if self.trial.device == "cpu" and cores < CORES_FOR_A_RANK * count:
            return (
                f"whether {count} ranks are faster than one cannot be measured here: it takes a GPU, or "
                f"{CORES_FOR_A_RANK} cores, for each, and there are {cores} cores"
            )
        self.say("one rank beside them: how much faster are they?")
        one = Ranks(self.trial, 1)
        self.lives.callback(one.close)
        one.epoch()
        ratios = [_seconds(one) / _seconds(self.ranks) for _ in range(PAIRS)]
        return f"{count} ranks are {median(ratios):.2f} times as fast as one"


def _seconds(ranks: Ranks) -> float:
    begin = time.perf_counter()
    ranks.epoch()
    return time.perf_counter() - begin


def check_steps(ledgers: Sequence[Ledger]) -> Iterator[str]:
    """All ranks take as many steps from one beginning of their loader to the next."""
    steps = [len(epochs(ledger)[0]) for ledger in ledgers]
    if len(set(steps)) > 1:
        counts = ", ".join(f"rank {rank} takes {count}" for rank, count in enumerate(steps))
        yield f"the ranks do not step together: in an epoch, {counts} steps"


def check_parameters(ledgers: Sequence[Ledger]) -> Iterator[str]:
    """After each step, all ranks have the same parameters."""
    for number, steps in enumerate(zip(*(ledger.steps for ledger in ledgers), strict=False)):
        values = [np.array(step.parameter) for step in steps if step.parameter is not None]
        for one, other in pairwise(values):
            if not np.allclose(one, other, rtol=SAME, atol=SAME * float(np.abs(one).max())):
                yield (
                    f"after step {number + 1} the ranks have different parameters: they do not share their gradients; "
                    "DistributedDataParallel does it"
                )
                return
