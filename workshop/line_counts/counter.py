"""Counts the lines that run in a process and in those that it starts; hits and times are those of line_profiler.

line_profiler counts the lines of functions that are handed to it, and changes their bytecode to tell them apart: it
appends instructions that do nothing. So functions are handed to it as their file is loaded, and what runs is the code
that it has made. This also holds for the body of the module, which is no function.

Modules are loaded by importlib, whose loaders have one method that returns a module's code. A script is not: Python
compiles it by itself. But whatever is run as a script may also be a folder or a ZIP file, for which Python asks
`sys.path_hooks`. A hook that takes the script itself has Python load the script by a loader as well; the same holds for
`runpy.run_path`, by which multiprocessing loads the script in processes that it spawns.
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
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source, spec_from_loader
from pathlib import Path
from time import monotonic, sleep, time_ns  # the script may replace those of the module
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, NoReturn

from workshop.line_counts import MAIN, SUFFIX, ProcessCounts
from workshop.line_counts.counted_code import MONITORING, CountedCode
from workshop.probe import earlier_cells
from workshop.probe.imports import after_import
from workshop.probe.internals import SET_SIGNALS, SIGNAL_MODULE, WORKER_LOOP, worker_argument
from workshop.probe.settings import CountedRun
from workshop.probe.user_code import LIBRARY_FOLDERS, is_user_code


class LineCounter:
    """Counts the lines of the user's code in this process, and in each that is forked from it.

    Args:
        run: what is counted.
    """

    def __init__(self, run: CountedRun) -> None:
        self.run = run
        self.own = [Path(folder).resolve() for folder in run.more]  # folders of packages that are the user's code, too
        self.main = vars(sys.modules["__main__"])
        self.code = CountedCode(tuple(run.only))
        self.sources: dict[str, str] = {}

    def start(self) -> None:
        """Count from now on. A spawned process comes here by itself, a forked one inherits it."""
        self._load_user_code()
        self._begin()
        atexit.register(self._write)
        os.register_at_fork(after_in_child=self._begin)
        self._write_before_exit()
        # This counter has a thread of its own, of which Python 3.12 would warn wherever the script forks.
        warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
        after_import(SIGNAL_MODULE, self._write_when_terminated)
        earlier_cells.when_over(self._begin)

    def _load_user_code(self) -> None:
        """Have all of the user's code that this process loads from now on be counted before it runs."""
        get_code = SourceFileLoader.get_code
        counter = self

        def get_counted_code(loader: SourceFileLoader, name: str) -> CodeType | None:
            code = get_code(loader, name)
            if code and counter.is_user_code(loader.path):
                return counter.count(code, loader.path, loader.get_data(loader.path))
            return code

        SourceFileLoader.get_code = get_counted_code  # type: ignore[method-assign,assignment]
        sys.path_hooks.insert(0, self._finder)

    def is_user_code(self, path: str) -> bool:
        """Return whether a file is the user's code, or of a package that counts as such."""
        path = os.path.abspath(path)
        if is_user_code(path):
            return True
        file = Path(path).resolve()
        inside = (file.relative_to(folder) for folder in self.own if file.is_relative_to(folder))
        return any(not LIBRARY_FOLDERS.search(path.as_posix()) for path in inside)

    def _finder(self, path: str) -> "_ScriptFinder":
        """Return what finds the code of a script, as a path hook does; an ImportError leaves the path to the others."""
        if not (path.endswith(".py") and Path(path).is_file() and self.is_user_code(path)):
            raise ImportError
        return _ScriptFinder(path, self)

    def count(self, code: CodeType, path: str, source: bytes) -> CodeType:
        """Have the lines of a file be counted, and return the code that is to run."""
        self.sources[path] = decode_source(source)
        return self.code.counted(code)

    def _begin(self) -> None:
        """Count from zero, in a process that has just begun."""
        self.began_s, self.writing = monotonic(), threading.RLock()
        self.path = Path(self.run.folder, f"{time_ns()}-{uuid.uuid4().hex}{SUFFIX}")
        self.code.begin()
        if not MONITORING:
            threading.settrace(self._enable_in_thread)
        threading.Thread(target=self._keep_writing, name="workshop record lines", daemon=True).start()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._write_and_die)

    def _enable_in_thread(self, frame: FrameType, event: str, arg: Any) -> None:
        """Count in a thread that has just begun: before Python 3.12, each thread is asked by itself."""
        self.code.profiler.disable()  # line_profiler takes a thread for an earlier one with the same number
        self.code.profiler.enable()

    def _keep_writing(self) -> None:
        sys.settrace(None)  # its own lines are not counted, and need not be looked at
        path, pause_s = self.path, 1.0
        while True:
            sleep(pause_s)
            if path != self.path:
                return
            begin = monotonic()
            self._write()
            # It takes a hundredth of the time, but comes often enough for a process that is killed 10 s after it was
            # told to end.
            pause_s = min(max(1.0, 100 * (monotonic() - begin)), 4.0)

    def _write(self) -> None:
        """Write what has been counted so far, if anything has."""
        if earlier_cells.are_running:
            return
        with self.writing:
            stats = self.code.stats()
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


class _ScriptFinder:
    """Finds a script, where Python looks for `__main__` in it."""

    def __init__(self, path: str, counter: LineCounter) -> None:
        self.path, self.counter = path, counter

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_loader(name, _ScriptLoader(self.path, self.counter)) if name == "__main__" else None


class _ScriptLoader(SourceFileLoader):
    """Loads a script so that it finds everything as it would if Python had run it by itself."""

    def __init__(self, path: str, counter: LineCounter) -> None:
        super().__init__("__main__", path)
        self.counter = counter

    def get_code(self, name: str) -> CodeType:
        """Return code that runs the script, once runpy has made its namespace."""
        return compile("__loader__.run(globals())", BETWEEN, "exec")

    def run(self, namespace: dict[str, Any]) -> None:
        """Run the script in a namespace."""
        path = self.path
        if namespace is self.counter.main:  # it is what Python was started with
            path = os.path.join(os.getcwd(), path)
            sys.path[:1] = [] if sys.flags.safe_path else [str(Path(path).resolve().parent)]
            if sys.excepthook is sys.__excepthook__:
                sys.excepthook = _show_without_loader
        loader = SourceFileLoader("__main__", path)  # as Python has it, which nothing of this hangs on
        namespace |= {
            "__spec__": None,
            "__loader__": loader,
            "__file__": path,
            "__cached__": None,
            "__package__": None,
        }
        source = self.get_data(path)
        exec(self.counter.count(self.source_to_code(source, path), path, source), namespace)


BETWEEN = "<workshop record lines>"
"""The name of the code between runpy and a script."""


def _show_without_loader(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception as Python does, without the frames that have led to the script."""
    while trace and trace.tb_frame.f_code.co_filename.startswith(("<frozen ", BETWEEN, __file__)):
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)
