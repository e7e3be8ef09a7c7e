"""Samples what this process is doing, from a thread of its own: nothing needs the right to look into another process.

A sample is taken when the sampler holds the interpreter's lock. A thread that computes in native code has let go of it,
and is seen in the line that it is in. Python code gives it up within `SWITCH_INTERVAL_S`. A native function that keeps
it is seen as it returns, still in the line that called it; so the time since the sample before is this sample's weight.
"""

import multiprocessing
import os
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic, process_time, sleep  # the script may replace those of the module
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from workshop.probe import earlier_cells
from workshop.probe.event_file import EventFile
from workshop.probe.internals import WORKER_LOOP, frame_above, sites_of, worker_argument
from workshop.probe.listener import Listener
from workshop.probe.observations import Role, StackSamples, WireFrame
from workshop.probe.process_end import at_process_end
from workshop.probe.settings import WRITTEN_EVERY_S
from workshop.probe.user_code import is_user_code

if TYPE_CHECKING:
    from workshop.probe.phase_clock import PhaseClock

PERIOD_S = 0.01
"""The mean time between two samples of a process."""

SWITCH_INTERVAL_S = 0.00002
"""Python's default, 5 ms, would hide whatever Python does for a shorter time between two native functions."""

PROBE = os.path.dirname(__file__)

Site: TypeAlias = tuple[CodeType, int]
"""A place in the code: an instruction."""


class StackSampler:
    """Samples one thread of this process until it is stopped, or the process ends.

    Args:
        events: where the samples are noted.
        main: returns the identity of the thread that is of interest, its role, and the phase it is in.
        period_s: the mean time between two samples.
        trainer: the process that trains; None for this one.
    """

    def __init__(
        self,
        events: EventFile,
        main: Callable[[], tuple[int, Role, str]],
        period_s: float = PERIOD_S,
        trainer: int | None = None,
    ) -> None:
        self._events, self._main, self._period_s = events, main, period_s
        self._trainer = trainer or os.getpid()
        self._frames: dict[tuple[CodeType, str, int], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._new_frames: list[WireFrame] = []
        self._new_stacks: list[tuple[int, ...]] = []
        self._samples: list[tuple[float, str, str, int]] = []
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="workshop-sampler", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._interval_before_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self._interval_before_s, SWITCH_INTERVAL_S))
        self._interval_s = sys.getswitchinterval()
        self._thread.start()
        at_process_end(self.stop)

    def stop(self) -> None:
        """Note the last samples, and end; a forked process that has inherited this object has nothing to end."""
        self._stopped = True
        if self._thread.is_alive():
            self._thread.join()
        self._put_interval_back()

    def _put_interval_back(self) -> None:
        if sys.getswitchinterval() == self._interval_s:  # otherwise the script has set its own
            sys.setswitchinterval(self._interval_before_s)

    def _run(self) -> None:
        try:
            self._sample_until_stopped()
        except Exception as error:  # the script goes on, without samples
            self._events.lose(error)
            self._put_interval_back()

    def _sample_until_stopped(self) -> None:
        dice = random.Random()  # samples at equal distances would always meet the same part of a step
        written = monotonic()
        while not self._stopped:
            sleep(self._period_s * dice.uniform(0.5, 1.5))
            with self._not_interrupted():
                self._sample()
                if monotonic() - written > WRITTEN_EVERY_S:
                    self._write()
                    written = monotonic()
        self._write()

    @contextmanager
    def _not_interrupted(self) -> Iterator[None]:
        """Let the script wait until a sample is taken, once: on a busy machine each change of threads takes long."""
        if is_ours := sys.getswitchinterval() == self._interval_s:  # otherwise the script has set its own
            sys.setswitchinterval(self._interval_before_s)
        try:
            yield
        finally:
            if is_ours and sys.getswitchinterval() == self._interval_before_s:
                sys.setswitchinterval(self._interval_s)

    def _sample(self) -> None:
        main, role, phase = self._main()
        if sites := sites_of(main):
            self._samples.append((monotonic(), role, phase, self._number_of_stack(sites)))

    def _number_of_stack(self, sites: list[Site]) -> int:
        for code, instruction in sites:
            site = code, code.co_filename, instruction  # codes of different files may be equal
            if site not in self._frames:
                self._frames[site] = len(self._frames)
                self._new_frames.append((code.co_name, code.co_filename, line_of(code, instruction)))
        stack = tuple(self._frames[code, code.co_filename, instruction] for code, instruction in reversed(sites))
        if stack not in self._stacks:
            self._stacks[stack] = len(self._stacks)
            self._new_stacks.append(stack)
        return self._stacks[stack]

    def _write(self) -> None:
        if self._samples:
            self._events.write(
                StackSamples,
                trainer=self._trainer,
                frames=self._new_frames,
                stacks=self._new_stacks,
                samples=self._samples,
                cpu_s=process_time(),
            )
            self._new_frames, self._new_stacks, self._samples = [], [], []


class TrainingSampler(Listener):
    """Samples the thread that trains, from the first call on; a process that only loads for it has its own sampler."""

    def __init__(self, events: EventFile, clock: "PhaseClock") -> None:
        self._events, self._clock = events, clock
        self.goes_on_in_fork()

    def goes_on_in_fork(self) -> bool:
        """Sample this process by itself."""
        clock = self._clock
        self.sampler = StackSampler(self._events, lambda: (clock.thread, Role.TRAINING, str(clock.counted_phase)))
        return True

    def on_begin(self) -> None:
        """Begin to sample."""
        self.sampler.start()


def line_of(code: CodeType, instruction: int) -> int:
    """Return the line of an instruction; a jump back to the head of a loop has none of its own, but the one before."""
    before = [line for start, _, line in code.co_lines() if line and start <= instruction]
    return before[-1] if before else code.co_firstlineno


def stack_here(skipped: int) -> tuple[WireFrame, ...]:
    """Return the stack of the caller, outermost frame first, without the innermost `skipped` frames."""
    return _wired(_outwards(frame_above(skipped + 1)))


def user_stack_here() -> tuple[WireFrame, ...]:
    """Return the frames of user code on the stack of the caller, outermost frame first."""
    return _wired(each for each in _outwards(frame_above(1)) if is_user_code(each.f_code.co_filename))


def called_by_user() -> bool:
    """Return whether user code, and no other library than torch, has called what the probe looks at."""
    files = (each.f_code.co_filename for each in _outwards(frame_above(1)))
    callers = (each for each in files if not each.startswith(PROBE) and "/torch/" not in each)
    return is_user_code(next(callers, "<none>"))


def _wired(frames: Iterable[FrameType]) -> tuple[WireFrame, ...]:
    """Return frames, innermost first, as a stack: lines are looked up of these alone, as that takes time."""
    found = [(each.f_code.co_name, each.f_code.co_filename, line_of(each.f_code, each.f_lasti)) for each in frames]
    return tuple(reversed(found))


def _outwards(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def watch_workers(events: EventFile, module: Any) -> None:
    """Have each DataLoader worker sample itself; `module` is torch.utils.data._utils.worker."""
    work = getattr(module, WORKER_LOOP)

    def sampled(*args: Any, **options: Any) -> None:
        stop = _sample_worker(events, work, args, options)
        try:
            work(*args, **options)
        finally:
            stop()

    # A spawned worker finds the function by its name, so that the one in its place needs the same.
    sampled.__module__, sampled.__qualname__, sampled.__name__ = work.__module__, work.__qualname__, work.__name__
    setattr(module, WORKER_LOOP, sampled)


def _sample_worker(events: EventFile, work: Any, args: Any, options: Any) -> Callable[[], None]:
    """Begin to sample this worker, and return what ends it; where that fails, the worker works on."""
    if earlier_cells.are_running:
        return lambda: None
    try:
        thread = threading.get_ident()
        # Many workers together cost as little as two.
        period_s = PERIOD_S * max(1.0, worker_argument(work, "num_workers", args, options, 1) / 2)
        parent = multiprocessing.parent_process()
        trainer = parent.pid if parent else None
        sampler = StackSampler(events, lambda: (thread, Role.WORKER, ""), period_s, trainer)
        sampler.start()
    except Exception as error:
        events.lose(error)
        return lambda: None
    return sampler.stop
