"""torch.profiler around a training: as a context for one's own script, or around a script that nobody edits.

    from workshop.recording import torch_profiler

    with torch_profiler.profile(wait=5, warmup=2, active=2) as prof:
        for batch in batches:
            ...
            prof.step()

Each cycle of the schedule becomes a trace, `prof/rank0.cycle0.pt.trace.json.gz`. What took the time, by operator, and
how much memory was in use is in `prof/profiler_list.dat`.
"""

import atexit
import functools
import gzip
import json
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from torch.profiler import profile as Profiler

VARIABLE = "WORKSHOP_TORCH_PROFILER"
LIST = "profiler_list.dat"
ROWS = 100
"""Operators in the list."""

Handler = Callable[["Profiler"], None]


@dataclass(frozen=True)
class Options:
    """When to record, and what."""

    wait: int = 5
    """Steps of a cycle that are not recorded."""
    warmup: int = 2
    """Steps that are recorded and thrown away: the first ones are slow."""
    active: int = 2
    """Steps that are kept."""
    repeat: int = 1
    """Cycles; 0: as many as there are."""
    skip_first: int = 0
    """Steps before the first cycle."""
    prof_dir: str = "prof"
    activities: tuple[str, ...] = ("cpu", "cuda")
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    tensorboard: bool = False
    """Write the traces for TensorBoard's plugin, too."""

    @property
    def first(self) -> int:
        """The first step that is kept, counted from 1."""
        return self.skip_first + self.wait + self.warmup + 1

    def to_environment(self, report: Path) -> dict[str, str]:
        """For every process of a script: `start` reads it there, and Kineto need not say that there is no GPU."""
        orders = json.dumps(asdict(self) | {"report": str(report)})
        return {VARIABLE: orders, "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99")}


@contextmanager
def profile(*, on_trace_ready: Handler | None = None, schedule: Any = None, **options: Any) -> "Iterator[Profiler]":
    """Record a training; call `step()` of what comes out after each step of it.

    Args:
        on_trace_ready: called with the profiler at the end of each cycle, after its trace has been written.
        schedule: of one's own, in place of `wait`, `warmup`, `active`, `repeat` and `skip_first`.
        **options: see `Options`.

    Raises:
        WorkshopError: `activities` names none that torch knows.
    """
    recorder = Recorder(Options(**options), on_trace_ready, schedule)
    with recorder.profiler as profiler:
        yield profiler


class Recorder:
    """A profiler, and what becomes of its cycles."""

    def __init__(self, options: Options, also: Handler | None = None, schedule: Any = None) -> None:
        import torch

        self.options, self.also = options, also
        self.folder = Path(options.prof_dir)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cycles = 0
        self.profiler = torch.profiler.profile(
            activities=_activities(options.activities),
            schedule=schedule
            or torch.profiler.schedule(
                wait=options.wait,
                warmup=options.warmup,
                active=options.active,
                repeat=options.repeat,
                skip_first=options.skip_first,
            ),
            on_trace_ready=self.keep,
            record_shapes=options.record_shapes,
            profile_memory=options.profile_memory,
            with_stack=options.with_stack,
            with_flops=options.with_flops,
            with_modules=options.with_modules,
        )
        self.profiler.preset_metadata_json("script", json.dumps(os.path.basename(sys.argv[0])))
        warnings.filterwarnings("ignore", message=".*Profiler clears events at the end of each cycle")

    def keep(self, profiler: "Profiler") -> None:
        """At the end of a cycle: write its trace, and add its operators to the list."""
        rank = rank_here()
        path = self.folder / f"rank{rank}.cycle{self.cycles}.pt.trace.json.gz"
        while path.exists():
            self.cycles += 1
            path = self.folder / f"rank{rank}.cycle{self.cycles}.pt.trace.json.gz"
        type(profiler).export_chrome_trace(profiler, str(path))
        # torch writes a trace once; handlers that write it, too, get a copy.
        profiler.export_chrome_trace = functools.partial(_copy, path)
        name = LIST if rank == 0 else LIST.replace(".", f".rank{rank}.")
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(f"{path.name}\n\n{summary(profiler)}\n\n")
        if self.options.tensorboard:
            import torch

            torch.profiler.tensorboard_trace_handler(str(self.folder / "tensorboard"), use_gzip=True)(profiler)
        self.cycles += 1
        if self.also:
            self.also(profiler)


def summary(profiler: "Profiler") -> str:
    """Operators by the time of the device, or of the CPU where there is none; and the memory that was in use."""
    import torch

    averages = profiler.key_averages()
    on_device = any(getattr(each, "self_device_time_total", 0) for each in averages)
    by = "self_device_time_total" if on_device else "self_cpu_time_total"
    table = averages.table(sort_by=by, row_limit=ROWS, max_name_column_width=60)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return f"{table}\n{torch.cuda.memory_summary()}"
    return f"{table}\n{_memory_of_process()}"


def rank_here() -> int:
    """Of this process, 0 where there is one alone."""
    import torch.distributed as distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))


def start() -> None:
    """Record whatever this process trains, as `VARIABLE` orders. Python calls this before the script's first line."""
    from workshop.harness.probe import after_import

    orders = json.loads(os.environ[VARIABLE])
    report = Path(orders.pop("report"))
    options = Options(**orders | {"activities": tuple(orders["activities"])})
    after_import("torch.optim.optimizer", lambda module: Unasked(options, report).install(module))


class Unasked:
    """Records a script that knows nothing of it. A step ends with the step of one optimizer, the first to step."""

    def __init__(self, options: Options, report: Path) -> None:
        self.options, self.report = options, report
        self.recorder: Recorder | None = None
        self.optimizer: Any = None
        self.steps = 0
        self.pid = os.getpid()

    def install(self, module: types.ModuleType) -> None:
        """Be called when an optimizer is made for the first time, and at the end of each of its steps."""
        original = module.Optimizer.profile_hook_step  # what torch wraps the step of each class in

        @functools.wraps(original)
        def hook(step: Callable[..., Any]) -> Callable[..., Any]:
            self.begin()
            hooked = original(step)

            @functools.wraps(hooked)
            def stepped(optimizer: Any, *args: Any, **options: Any) -> Any:
                result = hooked(optimizer, *args, **options)
                self.step(optimizer)
                return result

            return stepped

        module.Optimizer.profile_hook_step = staticmethod(hook)

    def begin(self) -> None:
        """Before the first step; once."""
        if self.recorder is None and os.getpid() == self.pid:
            self.recorder = Recorder(self.options)
            self.recorder.profiler.start()
            atexit.register(self.end)

    def step(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        self.optimizer = self.optimizer or optimizer
        if optimizer is self.optimizer and self.recorder and os.getpid() == self.pid:
            self.steps += 1
            self.recorder.profiler.step()

    def end(self) -> None:
        """Of the script: what is being recorded is kept, if there is a step in it."""
        if self.recorder is None or os.getpid() != self.pid:
            return
        self.recorder.profiler.stop()
        report = {"rank": rank_here(), "steps": self.steps, "cycles": self.recorder.cycles}
        with self.report.open("a") as file:
            file.write(json.dumps(report) + "\n")


def _copy(trace: Path, path: str, **_how: Any) -> None:
    """A trace to another place, compressed if its name says so; how torch would write it does not matter."""
    content = trace.read_bytes()
    Path(path).write_bytes(content if str(path).endswith(".gz") else gzip.decompress(content))


ACTIVITIES = ("cpu", "cuda", "xpu", "mtia", "hpu")


def check_activities(names: tuple[str, ...]) -> None:
    """Whether torch may know them on some machine.

    Raises:
        WorkshopError: one is none.
    """
    for name in names:
        if name not in ACTIVITIES:
            raise WorkshopError(f"there is no activity {name}; there are {', '.join(ACTIVITIES)}")


def _activities(names: tuple[str, ...]) -> list[Any]:
    """Those of them that this machine has."""
    import torch

    check_activities(names)
    known = {each.name.lower(): each for each in torch.profiler.supported_activities()}
    return [known[name] for name in names if name in known]


def _memory_of_process() -> str:
    import psutil

    now, peak = psutil.Process().memory_info().rss, _peak_bytes()
    return f"Memory of the process: {now / 1e6:.0f} MB{f', {peak / 1e6:.0f} MB at most' if peak else ''}"


def _peak_bytes() -> int | None:
    try:
        import resource
    except ImportError:  # Windows has none
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
