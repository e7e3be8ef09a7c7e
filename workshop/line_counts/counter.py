"""Counts the lines that run in a process and in those that it starts; hits and times are those of line_profiler.

line_profiler counts the lines of functions that are handed to it, and changes their bytecode to tell them apart: it
appends instructions that do nothing. So functions are handed to it as their file is loaded, and what runs is the code
that it has made. This also holds for the body of the module, which is no function.
"""

import atexit
import multiprocessing
import os
import signal
import sys
import threading
import uuid
import warnings
from contextlib import suppress
from importlib.util import decode_source
from inspect import CO_OPTIMIZED
from pathlib import Path
from time import monotonic, sleep, time_ns  # the script may replace those of the module
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, NoReturn

from line_profiler import LineProfiler

from workshop.line_counts.counts import MAIN, SUFFIX, ProcessCounts
from workshop.line_counts.import_hook import ImportHook
from workshop.probe.imports import after_import
from workshop.probe.internals import SET_SIGNALS, SIGNAL_MODULE, WORKER_LOOP, worker_argument
from workshop.probe.settings import CountedRun

WRITE_EVERY_S = 1.0
"""Seconds, at least, between two writings of what has been counted."""

MAX_SHARE = 0.01
"""A share of the time, at most, that writing takes, unless it would be seldom."""

MAX_PAUSE_S = 4.0
"""Seconds, at most, between two writings: a process that does not end when it is told to is killed after 10 s."""

MONITORING: Any = getattr(sys, "monitoring", None)
"""How Python reports the lines that run, from 3.12 on."""

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""The names of what is a function to Python before 3.12, but not to the person who wrote it."""


class LineCounter:
    """Counts the lines of the user's code in this process, and in each that is forked from it.

    Args:
        run: what is counted.
    """

    def __init__(self, run: CountedRun) -> None:
        self.run = run
        self.profiler: Any = None
        self.codes: list[CodeType] = []
        self.sources: dict[str, str] = {}

    def start(self) -> None:
        """Count from now on. A spawned process comes here by itself, a forked one inherits it."""
        ImportHook(self.run.more, self.count).watch()
        self._begin()
        atexit.register(self._write)
        os.register_at_fork(after_in_child=self._begin)
        self._write_before_exit()
        # This counter has a thread of its own, of which Python 3.12 would warn wherever the script forks.
        warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
        after_import(SIGNAL_MODULE, self._write_when_terminated)

    def count(self, code: CodeType, path: str, source: bytes) -> CodeType:
        """Have the lines of a file be counted, and return the code that is to run."""
        self.sources[path] = decode_source(source)
        return self._counted(code)

    def _counted(self, code: CodeType) -> CodeType:
        """Return code of which the functions inside are counted, and it is itself."""
        inside = [self._counted(value) if isinstance(value, CodeType) else value for value in code.co_consts]
        code = code.replace(co_consts=tuple(inside))
        if not self._is_wanted(code):
            return code
        function = _function(code)
        self.profiler.add_function(function)
        code = function.__code__
        self.codes.append(code)
        self._count_here(code)
        return code

    def _is_wanted(self, code: CodeType) -> bool:
        """Whether this is a function or the body of a module; the line of a comprehension has its time anyway."""
        is_function = code.co_flags & CO_OPTIMIZED and code.co_name not in COMPREHENSIONS
        if not self.run.only:
            return bool(is_function) or code.co_name == "<module>"
        return bool(is_function) and bool({code.co_name, code.co_qualname} & set(self.run.only))

    def _begin(self) -> None:
        """Count from zero, in a process that has just begun."""
        if self.profiler:
            self.profiler.disable()
        self.profiler = LineProfiler()
        for code in self.codes:
            self.profiler.add_function(_function(code))
        self.began_s, self.writing = monotonic(), threading.RLock()
        self.path = Path(self.run.folder, f"{time_ns()}-{uuid.uuid4().hex}{SUFFIX}")
        self.profiler.enable()
        if MONITORING:
            # What is raised can only be reported for all code; the rest is asked for where it is counted.
            events = MONITORING.events
            MONITORING.set_events(self.profiler.tool_id, events.RAISE | events.RERAISE)
            for code in self.codes:
                self._count_here(code)
        else:
            threading.settrace(self._enable_in_thread)
        threading.Thread(target=self._keep_writing, name="workshop record lines", daemon=True).start()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._write_and_die)

    def _count_here(self, code: CodeType) -> None:
        """Have Python 3.12 and later report the lines of this code; code that is not counted loses no time then."""
        if MONITORING:
            events = MONITORING.events
            wanted = events.LINE | events.PY_RETURN | events.PY_YIELD
            MONITORING.set_local_events(self.profiler.tool_id, code, wanted)

    def _enable_in_thread(self, frame: FrameType, event: str, arg: Any) -> None:
        """Count in a thread that has just begun: before Python 3.12, each thread is asked by itself."""
        self.profiler.disable()  # line_profiler takes a thread for an earlier one with the same number
        self.profiler.enable()

    def _keep_writing(self) -> None:
        sys.settrace(None)  # its own lines are not counted, and need not be looked at
        path, pause_s = self.path, WRITE_EVERY_S
        while True:
            sleep(pause_s)
            if path != self.path:
                return
            begin = monotonic()
            self._write()
            pause_s = min(max(WRITE_EVERY_S, (monotonic() - begin) / MAX_SHARE), MAX_PAUSE_S)

    def _write(self) -> None:
        """Write what has been counted so far, if anything has."""
        with self.writing:
            stats = self.profiler.get_stats()
            lines = [(*function, lines) for function, lines in stats.timings.items() if lines]
            if lines:
                seconds = monotonic() - self.began_s
                version = list(sys.version_info[:2])
                sources = dict(self.sources)  # other threads may be importing
                counts = ProcessCounts(_name(), seconds, stats.unit, lines, sources, version)
                with suppress(OSError):  # the disk is full, or the run is over for whoever recorded it
                    counts.write(self.path)

    def _write_when_terminated(self, signal_handling: Any) -> None:
        """Write also in DataLoader workers that are terminated in the end, as those that persist are."""
        set_handlers = getattr(signal_handling, SET_SIGNALS)

        def set_handlers_and_ours() -> None:
            set_handlers()
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # as torch does, but with what was counted

        setattr(signal_handling, SET_SIGNALS, set_handlers_and_ours)

    def _write_before_exit(self) -> None:
        """Write also where a process ends by `os._exit`, as forked ones do."""
        exit_at_once = os._exit

        def write_and_exit(status: int) -> NoReturn:
            try:
                self._write()
            finally:
                exit_at_once(status)

        os._exit = write_and_exit

    def _write_and_die(self, number: int, frame: FrameType | None) -> None:
        """Write, and end as without this handler, unless it is the script's own handler that calls this one."""
        try:
            self._write()
        finally:
            if signal.getsignal(number) == self._write_and_die:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)


def _function(code: CodeType) -> FunctionType:
    """Return a function of this code, which is never called: line_profiler asks for one."""
    return FunctionType(code, {}, closure=tuple(CellType() for _ in code.co_freevars))


def _name() -> str:
    """Return the name of this process in its run: "main process", "worker 0", "rank 1 worker 0"."""
    process: Any = multiprocessing.current_process()
    name = "" if process.name == "MainProcess" else process.name
    target: Any = getattr(process, "_target", None)
    if getattr(target, "__name__", "") == WORKER_LOOP:  # torch's own note of it is gone in the end
        worker = worker_argument(target, "worker_id", process._args, process._kwargs, None)
        name = name if worker is None else f"worker {worker}"  # a function of that name may be somebody else's
    rank = f"rank {os.environ['RANK']}" if "RANK" in os.environ else ""
    return f"{rank} {name}".strip() or MAIN
