"""A training step that never ran: a random program is simulated, and the trace tells what it did when."""

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

Key = tuple[str, str | None]
"""An operator; or a kernel and the operator that launched it."""

MAIN, BACKWARD = 7, 8
DATA_WAIT = "enumerate(DataLoader)#_Iter.__next__"
OPERATORS = ("aten::mm", "aten::add", "aten::conv2d", "aten::copy_", "aten::relu")


@dataclass
class Run:
    """A run of a kernel or copy; times in ns."""

    name: str
    stream: int
    delay: int
    dur: int
    correlation: int
    launcher: str = ""
    awaits: "list[Run]" = field(default_factory=list)
    start: int = 0
    end: int = 0


@dataclass
class Event:
    """An operator or call on the CPU."""

    name: str
    cat: str
    thread: int
    correlation: int = -1
    start: int = 0
    end: int = 0


@dataclass
class Moment:
    """The start or end of an event: it comes some time after everything that it waits for."""

    event: Event
    is_end: bool
    own: int
    operator: str | None
    """The operator whose time that is; None for Python."""
    launches: Run | None = None
    awaits: list[Run] = field(default_factory=list)
    after_thread: int | None = None


class SimulatedStep:
    """A program of operators on two threads, of kernels on some streams, and of everything that waits for these.

    The threads take turns: the one that trains waits while the other one runs the backward pass, or communicates.
    """

    def __init__(self, chance: random.Random, streams: int) -> None:
        self.chance = chance
        self.streams = range(7, 7 + streams)
        self.program: list[Moment] = []
        self.runs: list[Run] = []
        self.last: dict[int, Run] = {}
        """What was launched last, by stream."""
        self.pending: defaultdict[int, list[Run]] = defaultdict(list)
        """What a stream was told to wait for, before its next kernel."""
        self.notes: list[tuple[Event, dict[str, Any]]] = []
        self.correlation = 0
        for _ in range(chance.randint(1, 4)):
            self.phase(MAIN, None)
            if chance.random() < 0.6:
                self.phase(BACKWARD, MAIN)
                self.operator(MAIN, (), after_thread=BACKWARD)
        self.tail = chance.randint(0, 20)
        self.events = [moment.event for moment in self.program if not moment.is_end]

    def phase(self, thread: int, after_thread: int | None) -> None:
        for number in range(self.chance.randint(1, 4)):
            self.operator(thread, (), after_thread if number == 0 else None)

    def operator(self, thread: int, around: tuple[str, ...], after_thread: int | None = None) -> None:
        chance = self.chance
        name, cat = chance.choice(OPERATORS), "cpu_op"
        if thread == BACKWARD and not around:
            name = "autograd::engine::evaluate_function: MmBackward0" if self.streams else "gloo:all_reduce"
        elif not around and chance.random() < 0.1:
            name, cat = DATA_WAIT, "user_annotation"
        event = Event(name, cat, thread)
        self.begin(event, around, after_thread=after_thread)
        for _ in range(chance.choice([0, 0, 1, 2, 3])):
            if self.streams and chance.random() < 0.6:
                self.call(thread, (*around, name))
            elif len(around) < 3:
                self.operator(thread, (*around, name))
        self.finish(event, (*around, name))

    def begin(self, event: Event, around: tuple[str, ...], **more: Any) -> None:
        self.program.append(Moment(event, False, self.chance.randint(1, 40), _owner(around), **more))

    def finish(self, event: Event, around: tuple[str, ...], **more: Any) -> None:
        self.program.append(Moment(event, True, self.chance.randint(1, 60), _owner(around), **more))

    def call(self, thread: int, around: tuple[str, ...]) -> None:
        """A kernel, a blocking copy, a synchronisation, or a stream that waits for another one."""
        chance = self.chance
        self.correlation += 1
        kind = chance.choice([*["cudaLaunchKernel"] * 6, "cudaMemcpyAsync", *WAITS, "cudaStreamWaitEvent"])
        event = Event(kind, "cuda_runtime", thread, self.correlation)
        stream = chance.choice(self.streams)
        if kind in ("cudaLaunchKernel", "cudaMemcpyAsync"):
            self.launch(event, around, stream)
            return
        if kind in ("cudaEventSynchronize", "cudaStreamWaitEvent"):
            record, source = (
                Event("cudaEventRecord", "cuda_runtime", thread, self.correlation),
                chance.choice(self.streams),
            )
            self.begin(record, around)
            self.finish(record, around)
            recorded = [self.last[source]] if source in self.last else []
            self.correlation += 1
            event.correlation = self.correlation
            waits: dict[str, Any] = {
                "wait_on_cuda_event_record_corr_id": record.correlation,
                "wait_on_stream": source,
                "stream": stream if kind == "cudaStreamWaitEvent" else -1,
            }
            for _ in range(chance.choice([0, 0, 1])):  # what is launched after the record is not waited for
                self.correlation += 1
                self.launch(Event("cudaLaunchKernel", "cuda_runtime", thread, self.correlation), around, source)
        else:
            recorded = [*self.last.values()] if kind == "cudaDeviceSynchronize" else [self.last.get(stream)]
            recorded = [run for run in recorded if run]
            waits = {"stream": -1 if kind == "cudaDeviceSynchronize" else stream}
        self.notes.append((event, {"name": WAITS.get(kind, "Stream Wait Event"), **waits}))
        self.begin(event, around)
        if kind == "cudaStreamWaitEvent":
            self.pending[stream] += recorded
            recorded = []
        self.finish(event, around, awaits=recorded)

    def launch(self, event: Event, around: tuple[str, ...], stream: int) -> None:
        chance, copies = self.chance, event.name == "cudaMemcpyAsync"
        name = "Memcpy DtoH (Device -> Pageable)" if copies else chance.choice(KERNELS)
        run = Run(name, stream, chance.randint(0, 30), chance.randint(1, 300), self.correlation, around[-1])
        run.awaits = self.pending.pop(stream, [])
        self.last[stream] = run
        self.runs.append(run)
        self.begin(event, around, launches=run)
        self.finish(event, around, awaits=[run] * copies)

    def simulate(self, without: Key | None = None) -> tuple[int, int]:
        """Give every event its times, and return the end of the training thread's step, and the end of everything.

        Args:
            without: the operator or kernel whose own time is none.
        """
        now: defaultdict[int, int] = defaultdict(int)
        free: defaultdict[int, int] = defaultdict(int)
        for moment in self.program:
            thread = moment.event.thread
            ready = [now[thread], *(run.end for run in moment.awaits)]
            if moment.after_thread is not None:
                ready.append(now[moment.after_thread])
            now[thread] = max(ready) + (0 if without == (moment.operator, None) else moment.own)
            if moment.is_end:
                moment.event.end = now[thread]
            else:
                moment.event.start = now[thread]
            if run := moment.launches:
                run.start = max(now[thread], free[run.stream], *(each.end for each in run.awaits), 0) + run.delay
                run.end = run.start + (0 if without == (run.name, run.launcher) else run.dur)
                free[run.stream] = run.end
        return now[MAIN] + self.tail, max([*now.values(), *free.values()])

    def keys(self) -> set[Key]:
        """Return all operators and kernels."""
        return {(moment.operator, None) for moment in self.program if moment.operator} | {
            (run.name, run.launcher) for run in self.runs
        }

    def trace(self) -> list[dict[str, Any]]:
        """Return the events of the simulated run, as torch.profiler writes them."""
        end, _ = self.simulate()
        found = [_event("user_annotation", "ProfilerStep#3", MAIN, 0, end)]
        for each in self.events:
            found.append(_event(each.cat, each.name, each.thread, each.start, each.end, correlation=each.correlation))
        for run in self.runs:
            cat = "gpu_memcpy" if run.name.startswith("Memcpy") else "kernel"
            args = {"stream": run.stream, "device": 0, "correlation": run.correlation}
            found.append(_event(cat, run.name, run.stream, run.start, run.end, **args))
        for event, note in self.notes:
            args = {key: value for key, value in note.items() if key != "name"}
            args |= {"device": 0, "correlation": event.correlation}
            found.append(_event("cuda_sync", note["name"], event.thread, event.start, event.end, **args))
        self.chance.shuffle(found)
        return found


def _owner(around: tuple[str, ...]) -> str | None:
    """The operator whose time it is inside of some, the innermost last; what runs in a data wait is a part of it."""
    return around[0 if around[0] == DATA_WAIT else -1] if around else None


KERNELS = ("gemm", "relu", "ncclDevKernel_AllReduce")
WAITS = {
    "cudaStreamSynchronize": "Stream Sync",
    "cudaDeviceSynchronize": "Context Sync",
    "cudaEventSynchronize": "Event Sync",
}


def _event(cat: str, name: str, tid: int, start: int, end: int, **args: Any) -> dict[str, Any]:
    pid = 0 if cat in ("kernel", "gpu_memcpy", "cuda_sync") else 7
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, **times, "args": args}
