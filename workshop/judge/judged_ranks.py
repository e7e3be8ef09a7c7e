"""The ranks of a script that is judged, started as torchrun starts them; most scripts have only one."""

import socket
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack

from workshop.judge.contest import Contest
from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.probe.messages import Proceed
from workshop.runs.machine import threads_each
from workshop.runs.script import run_folder
from workshop.runs.script_error import CONSEQUENCE, ScriptError

NOTICE_S = 5.0
"""Seconds, at most, that the other ranks get to fail after the first: their messages tell which rank failed first."""


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
