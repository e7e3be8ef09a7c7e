"""Traces that no profiler wrote, as odd as those that some did."""

import gzip
import itertools
import json
import random
from pathlib import Path
from typing import Any

Event = dict[str, Any]

KERNELS = ("void gemm<float>", "ncclDevKernel_AllReduce", "ncclKernel_x", "triton_poi", "hipcub")
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "hipLaunchKernel")
OTHERS = {
    "gpu_memcpy": ("cudaMemcpyAsync", ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoD", "hipMemcpyAsync")),
    "gpu_memset": ("cudaMemsetAsync", ("Memset (Device)",)),
    "cuda_sync": ("cudaStreamSynchronize", ("Stream Sync", "Event Sync", "Context Sync", "Stream Wait Event")),
}

_numbers = itertools.count(1)


def made_up(seed: int) -> dict[str, Any]:
    """A trace of some steps on some streams, of whole µs or with ns: by chance with everything that may be missing."""
    return _MadeUp(seed).trace()


class _MadeUp:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.whole = self.chance.random() < 0.4
        self.base = 1_661_938_466_265_032 if self.whole else 4_203_669_603_438
        self.free = dict.fromkeys([7, 20, 23, 0][: self.chance.randint(1, 4)], 0.0)
        self.now, self.correlation = 10.0, 100
        self.events: list[Event] = []

    def trace(self) -> dict[str, Any]:
        chance = self.chance
        steps = chance.choice([0, 1, 2, 3])
        for step in range(max(steps, 1)):
            begin = self.now
            for _ in range(chance.randint(3, 12)):
                self.operator()
            name = f"ProfilerStep#{step}"
            if steps:
                self.add("user_annotation", name, 7, 7, begin, self.now - begin, {})
            if steps and chance.random() < 0.5:
                self.add("gpu_user_annotation", name, 0, 7, begin + 5, self.now - begin, {"External id": 3})
        self.events.append({"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}})
        if chance.random() < 0.8:
            self.events[-1]["ts"] = self.time(0)
        self.add("Trace", "PyTorch Profiler", 1, 1, 0, self.now, {})
        if chance.random() < 0.7:
            chance.shuffle(self.events)
        self.events += self.allocations()
        return {"schemaVersion": 1, "distributedInfo": {"rank": chance.randrange(4)}, "traceEvents": self.events}

    def operator(self) -> None:
        chance = self.chance
        args = {"External id": 1} | ({"stream": 0} if chance.random() < 0.05 else {})  # the stream as triton writes it
        name = chance.choice(["aten::add", "aten::mm", "triton_x"])
        self.add("cpu_op", name, 7, 7, self.now, chance.uniform(0.5, 30), args)
        if chance.random() < 0.8:
            self.kernel()
        self.now += chance.uniform(0, 40)

    def kernel(self) -> None:
        chance = self.chance
        self.correlation += 1
        cat = chance.choice([*["kernel"] * 6, *OTHERS])
        if cat == "kernel":
            call, name = chance.choice(LAUNCHES), chance.choice([*KERNELS, f"relu{chance.randrange(15)}"])
        else:
            call, names = OTHERS[cat]
            name = chance.choice(names)
        args: Event = {"correlation": self.correlation}
        if chance.random() < 0.95:
            odd = {"stream": "0x0"} if chance.random() < 0.2 else {}
            self.add("cuda_runtime", call, 7, 7, self.now + 1, chance.uniform(1, 8), args | odd)
        if chance.random() < 0.05:
            self.add("cuda_driver", "cuLaunchKernel", 7, 7, self.now + 2, 1, args)
        stream = chance.choice(list(self.free))
        start = max(self.now + chance.uniform(0, 20), self.free[stream] if chance.random() < 0.9 else 0)
        start += chance.choice([0, 0, 0.5, 2, 40])
        dur = chance.choice([chance.uniform(0.1, 2), chance.uniform(2, 60)])
        self.free[stream] = start + dur
        on = -1 if name in ("Context Sync", "Event Sync") and chance.random() < 0.5 else stream
        args |= {"stream": on, "device": 0, "bytes": 4096}
        if chance.random() < 0.03:
            del args["correlation"]
        self.add(cat, name, 0, stream, start, dur, args)

    def allocations(self) -> list[Event]:
        """One in three operators allocates, and what one allocates the next one releases; there is a count for each."""
        found: list[Event] = []
        for place in range(0, len(ops := [each for each in self.events if each.get("cat") == "cpu_op"]), 3):
            before = [allocation(ops[place]["ts"], -(1 << place), place)] if found else []
            found += [*before, allocation(ops[place]["ts"], 8 << place, place + 3, total=9 << place)]
        return found

    def add(self, cat: str, name: str, pid: int, tid: int, ts: float, dur: float, args: Event) -> None:
        times = {"ts": self.time(ts), "dur": int(dur) if self.whole else round(dur, 3)}
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, **times, "args": dict(args)})

    def time(self, microseconds: float) -> float:
        return self.base + (int(microseconds) if self.whole else round(microseconds, 3))


def write(path: Path, trace: Any) -> Path:
    text = trace if isinstance(trace, bytes) else (trace if isinstance(trace, str) else json.dumps(trace)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    pid, tid = (0, args["stream"]) if "stream" in args else (7, 7)
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def allocation(
    ts: float, size: int, address: int, total: int = 0, tid: int = 7, device: tuple[int, int] = (0, -1)
) -> Event:
    """An allocation, or a release if the size is negative, and the bytes that are in use from then on."""
    args = {"Bytes": size, "Addr": address, "Total Allocated": total, "Total Reserved": 2 * total}
    args |= {"Device Type": device[0], "Device Id": device[1]}
    return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 7, "tid": tid, "ts": ts} | {
        "args": args
    }


def launched(name: str, call: tuple[float, float], run: tuple[float, float], stream: int = 7, **args: Any) -> list[Any]:
    """A call and what it launched: when, and for how long."""
    number = next(_numbers)
    cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
    return [
        event("cuda_runtime", "cudaLaunchKernel", *call, correlation=number),
        event(cat, name, *run, stream=stream, correlation=number, **{"device": 0} | args),
    ]


def a_step(number: int, start: float, work: float = 100, talk: float = 0) -> list[Any]:
    """As a CPU records it, with ranks that talk at the end."""
    return [
        event("user_annotation", f"ProfilerStep#{number}", start, work + talk),
        event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", start, 20),
        event("cpu_op", "aten::conv2d", start + 20, 30),
        event("cpu_op", "aten::mkldnn_convolution", start + 25, 20),
        event("cpu_op", "autograd::engine::evaluate_function: ConvBackward", start + 55, 25),
        event("cpu_op", "aten::mm", start + 60, 10),
        event("user_annotation", "Optimizer.step#Adam.step", start + 85, 10),
        event("user_annotation", "gloo:all_reduce", start + work, talk),
    ]


def a_training(seed: int, rank: int) -> dict[str, Any]:
    """A trace of three steps in whole µs, with what HolisticTraceAnalysis analyses by its own rules.

    Calls begin at even times and events on a device at odd ones, because it leaves the order of equal times to chance.
    The first event is no launch, because it would not find the kernel of that.
    """
    chance = random.Random(f"{seed} {rank}")
    events = [event("cpu_op", "warm-up", 9_000, 10)]
    number, free = 100, {7: 0, 20: 0}

    def launch(cat: str, name: str, now: int, delay: int, dur: int, stream: int, **args: Any) -> None:
        nonlocal number
        number += 1
        call = "cudaMemcpyAsync" if cat == "gpu_memcpy" else "cudaLaunchKernel"
        events.append(event("cuda_runtime", call, now, 2, correlation=number))
        start = max(now + delay, free[stream]) | 1
        free[stream] = start + dur
        events.append(event(cat, name, start, dur, stream=stream, device=0, correlation=number, **args))

    for step in range(1, 4):
        now = begin = step * 10_000
        for _ in range(chance.randint(3, 9)):
            start = now
            operator = chance.choice(["aten::linear", "aten::add", "aten::copy_"])
            for kernel in {"aten::linear": ["gemm", "bias"], "aten::add": ["add"]}.get(operator, ["cast"]):
                now += 2 * chance.randint(2, 9)
                launch("kernel", kernel, now, chance.randint(3, 60), chance.randint(2, 90), 7)
            if operator == "aten::copy_":
                speed = {"bytes": 9, "memory bandwidth (GB/s)": chance.uniform(1, 99)}
                launch("gpu_memcpy", "Memcpy DtoD", now + 4, chance.randint(3, 60), chance.randint(2, 90), 7, **speed)
            now += 8
            events.append(event("cpu_op", operator, start, now - start))
            now += 2 * chance.randint(2, 49)
        events.append(event("user_annotation", "## forward ##", begin, now - begin))
        for name in ("ncclKernel_AllReduce", "ncclKernel_AllGather"):
            launch("kernel", name, now + 2, chance.randint(10, 900), chance.randint(300, 999), 20)
            now += 30
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, now - begin))
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": events}


MAIN, BACKWARD = 7, 9


def function(name: str, ts: float, dur: float, called_from: str | None = None) -> Any:
    return event("python_function", name, ts, dur, **({"CallFrom": called_from} if called_from else {}))


def operator(name: str, ts: float, dur: float, sequence: int, forward_thread: int = 0, tid: int = MAIN) -> Any:
    args = {"Sequence number": sequence, "Fwd thread id": forward_thread}
    return event("cpu_op", name, ts, dur, **args) | {"tid": tid}


def kernel(ts: float, dur: float, tid: int = MAIN, **changed: Any) -> list[Any]:
    call, run = launched("gemm", (ts, 1), (ts + 5000, dur))
    return [call | {"tid": tid} | changed, run]


STEP = (
    function("train.py(1): <module>", 0, 1000),
    function("torch/utils/data/dataloader.py(9): __next__", 10, 20, "train.py:4"),
    function("nn.Module: Net_0", 100, 100, "train.py:5"),
    function("model.py(8): forward", 102, 90, "torch/nn/modules/module.py:1794"),
    function("torch/nn/modules/linear.py(130): forward", 110, 20, "model.py:9"),
    operator("aten::linear", 112, 10, sequence=3),
    operator("aten::addmm", 114, 6, sequence=4),
    *kernel(115, 40),
    operator("aten::mul", 150, 10, sequence=5),  # an operator such as * calls nothing of Python
    *kernel(152, 5),
    function("torch/_tensor.py(500): backward", 300, 200, "train.py:6"),
    operator("autograd::engine::evaluate_function: MulBackward0", 310, 10, 5, 1, BACKWARD),
    *kernel(312, 6, BACKWARD),
    operator("autograd::engine::evaluate_function: AddmmBackward0", 330, 30, 4, 1, BACKWARD),
    operator("AddmmBackward0", 332, 20, 4, 1, BACKWARD),
    *kernel(335, 80, BACKWARD),
    event("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 370, 10)
    | {"tid": BACKWARD},
    *kernel(372, 7, BACKWARD),
    function("torch/optim/sgd.py(60): step", 600, 50, "train.py:7"),
    event("user_annotation", "Optimizer.step#SGD.step", 601, 40),
    *kernel(610, 20),
)
"""A step of a training on a device, with a backward pass in a thread of its own."""
