"""torch.profiler around a training: as a context for one's own script, or around a script that nobody edits.

    from workshop.probe import torch_profiler

    with torch_profiler.profile(wait=5, warmup=2, active=2) as prof:
        for batch in batches:
            ...
            prof.step()

Each cycle of the schedule becomes a trace, `prof/rank0.cycle0.pt.trace.json.gz`. What took the time, by operator, and
how much memory was in use is in `prof/profiler_list.dat`.
"""

import _thread
import functools
import gzip
import json
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import distributed
from torch.profiler import record_function

from workshop.probe import wire
from workshop.probe.activity import ActivityListener
from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import profiler_settings
from workshop.probe.listener import Listener
from workshop.probe.log import log
from workshop.probe.phases import Phase
from workshop.probe.process_end import at_process_end
from workshop.probe.replaced_function import replace_function
from workshop.probe.settings import OPERATORS, REPORTS, ProfilerOptions, ProfilerReport

MAX_OPERATORS = 100
"""The number of operators in the list."""

Profiler: TypeAlias = torch.profiler.profile
Handler = Callable[[Profiler], None]


@contextmanager
def profile(*, on_trace_ready: Handler | None = None, schedule: Any = None, **options: Any) -> Iterator[Profiler]:
    """Record a training; call `step()` of what comes out after each step of it.

    Args:
        on_trace_ready: called with the profiler at the end of each cycle, after its trace has been written.
        schedule: a schedule of one's own, in place of `wait`, `warmup`, `active`, `repeat` and `skip_first`.
        **options: the fields of `ProfilerOptions`.

    Raises:
        ValueError: `activities` names one that torch does not know.
    """
    recorder = Recorder(ProfilerOptions(**options), on_trace_ready, schedule)
    try:
        with recorder.profiler as profiler:
            yield profiler
    finally:
        recorder.put_scopes_back()


class ProfiledScopes:
    """Keeps scopes of `record_function` that were entered under one profiler from being left under another.

    torch would then write to the memory of the first, which is freed, and the process may crash.
    """

    def __init__(self) -> None:
        self._profilers_ended = 0
        self._entered_after: dict[int, int] = {}
        self._never_left: list[Any] = []

    def watch(self) -> Callable[[], None]:
        """Learn of each scope from now on; return what ends that."""
        enter, leave = record_function.__enter__, record_function.__exit__

        def entered(scope: Any) -> Any:
            self._entered_after[id(scope)] = self._profilers_ended
            return enter(scope)

        def left(scope: Any, *error: Any) -> Any:
            is_old = self._entered_after.pop(id(scope), self._profilers_ended) < self._profilers_ended
            if not (is_old and torch.autograd._profiler_enabled()):
                return leave(scope, *error)
            self._never_left.append(scope.record)  # if it were freed, it would be left
            return None

        replaced = ExitStack()
        replaced.callback(replace_function(record_function, "__enter__", entered))
        replaced.callback(replace_function(record_function, "__exit__", left))
        return replaced.close

    def on_profiler_end(self) -> None:
        """Remember that what is open now was entered under a profiler that has ended."""
        self._profilers_ended += 1


class Recorder:
    """A profiler that writes each of its cycles to files, and then calls `also`."""

    def __init__(self, options: ProfilerOptions, also: Handler | None = None, schedule: Any = None) -> None:
        self.options, self.also = options, also
        self.folder = Path(options.prof_dir)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cycles = 0
        self.scopes = ProfiledScopes()
        self.put_scopes_back = self.scopes.watch()
        self.profiler = Profiler(
            activities=_activities(options.activities),
            schedule=schedule or torch.profiler.schedule(**_some(options, "wait warmup active repeat skip_first")),
            on_trace_ready=self.keep,
            experimental_config=profiler_settings(),
            **_some(options, "record_shapes profile_memory with_stack with_flops with_modules"),
        )
        self.profiler.preset_metadata_json("script", json.dumps(os.path.basename(sys.argv[0])))
        warnings.filterwarnings("ignore", message=".*Profiler clears events at the end of each cycle")

    def keep(self, profiler: Profiler) -> None:
        """Write the trace of a cycle that has ended, and add its operators to the list."""
        self.scopes.on_profiler_end()
        rank = rank_here()
        while (path := self.folder / f"rank{rank}.cycle{self.cycles}.pt.trace.json.gz").exists():
            self.cycles += 1
        try:
            type(profiler).export_chrome_trace(profiler, str(path))
        except BaseException:  # half a trace is none
            path.unlink(missing_ok=True)
            raise
        # torch writes a trace once; handlers that write it, too, get a copy.
        profiler.export_chrome_trace = functools.partial(_copy, path)
        name = OPERATORS if rank == 0 else OPERATORS.replace(".", f".rank{rank}.")
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(f"{path.name}\n\n{summary(profiler)}\n\n")
        if self.options.tensorboard:
            torch.profiler.tensorboard_trace_handler(str(self.folder / "tensorboard"), use_gzip=True)(profiler)
        self.cycles += 1
        if self.also:
            self.also(profiler)


def summary(profiler: Profiler) -> str:
    """Return a table of operators by the time of the device, or of the CPU without one, and the memory in use."""
    averages = profiler.key_averages()
    on_device = any(getattr(each, "self_device_time_total", 0) for each in averages)
    by = "self_device_time_total" if on_device else "self_cpu_time_total"
    table = averages.table(sort_by=by, row_limit=MAX_OPERATORS, max_name_column_width=60)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return f"{table}\n{torch.cuda.memory_summary()}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return f"{table}\nMemory of the process: {peak / 1e6:.0f} MB at most"


def rank_here() -> int:
    """Return the rank of this process; 0 where there is only one."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))


class ScriptRecording(Listener):
    """Records a script that knows nothing of it, from the first batch or forward pass on.

    The profiler steps as the first phase after a training step begins, outside of the annotation that torch puts around
    the optimizer's step.
    """

    def __init__(self, options: ProfilerOptions) -> None:
        self.options = options
        self.hooks = TrainingHooks(self, ActivityListener(options.folder))
        self.begin()

    def begin(self) -> None:
        """Begin to wait for a training in this process."""
        self.recorder: Recorder | None = None
        self.hooks.clock.on_enter = self.hooks.audience.guard(self.on_enter)
        self.steps = 0
        self.stepped = False
        self._pid = os.getpid()

    def goes_on_in_fork(self) -> bool:
        """Record this process by itself."""
        self.begin()
        return True

    def on_fault(self, fault: str) -> None:
        """Record nothing more."""
        self.hooks.clock.on_enter = None
        self.stepped = False

    def on_enter(self, _: Phase) -> None:
        """Begin to record, or tell the profiler of a step that has ended."""
        if self.recorder is None:
            log("torch.profiler starts")
            self.recorder = Recorder(self.options)
            self.recorder.profiler.start()
            at_process_end(self.end)
        self.step()

    def on_step_end(self, steps: int) -> None:
        """Remember that a step has ended."""
        self.step()  # of a loop that enters no phase between two steps
        self.steps += steps
        self.stepped = True

    def step(self) -> None:
        """Tell the profiler of a step that has ended since it was told last."""
        if self.recorder and self.stepped:
            self.stepped = False
            with ctrl_c_held_back():
                self.recorder.profiler.step()
                if self.options.stop and 0 < self.options.repeat <= self.recorder.cycles:
                    self.stop()

    def stop(self) -> None:
        """End the script, as if it had come to its end: what it does as it exits is done."""
        if threading.current_thread() is threading.main_thread():
            sys.exit(0)
        _thread.interrupt_main()

    def end(self) -> None:
        """Keep what is being recorded as the script ends, if there is a step in it, and report."""
        if self.recorder is None or os.getpid() != self._pid:
            return
        self.step()
        with suppress(KeyboardInterrupt), ctrl_c_held_back():  # the script has ended already
            self.recorder.profiler.stop()
        report = ProfilerReport(rank_here(), self.steps, self.recorder.cycles)
        with open(os.path.join(self.options.folder, REPORTS), "a", encoding="utf-8") as file:
            file.write(wire.encode(report) + "\n")


@contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """Raise the first Ctrl-C only at the end, when a trace is written; pressed again, it counts at once."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual is not signal.default_int_handler:
        yield
        return
    pressed = False

    def hold_back(*_: Any) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, hold_back)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if pressed:
        raise KeyboardInterrupt


def _copy(trace: Path, path: str, **_how: Any) -> None:
    """Copy a trace, compressed if the name of the copy says so; how torch would write it does not matter."""
    content = trace.read_bytes()
    Path(path).write_bytes(content if str(path).endswith(".gz") else gzip.decompress(content))


def _some(options: ProfilerOptions, names: str) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names.split()}


def _activities(names: tuple[str, ...]) -> list[Any]:
    """Those of the named activities that this machine has."""
    known = {each.name.lower(): each for each in torch.profiler.supported_activities()}
    return [known[name] for name in names if name in known]


def mark_phases() -> None:
    """Put a range around each phase of the training thread; the time between phases has none.

    A torch that was built without CUDA has no ranges: it raises an exception, and the hooks are removed.
    """
    hooks = TrainingHooks()
    hooks.clock.on_enter = hooks.audience.guard(lambda phase: torch.cuda.nvtx.range_push(str(phase)))
    hooks.clock.on_leave = hooks.audience.guard(lambda _: torch.cuda.nvtx.range_pop())
    hooks.install()
