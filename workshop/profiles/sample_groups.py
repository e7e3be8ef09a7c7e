"""Splits the samples of a recording by process, thread or rank, and finds the DataLoader workers among them."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.probe.internals import WORKER_LOOP
from workshop.profiles.code_origin import CodeOrigins
from workshop.profiles.stacks import Recording, Stack

WORKER = "DataLoader worker"

WAITING = ("sleep", "wait", "select", "poll", "accept", "acquire", "join", "recv", "get")
"""The names of Python functions that wait; `time.sleep` is native, so py-spy sees only the line that calls it."""

_RANK = re.compile(r"RANK=(\d+) ")
"""The rank that `workshop record` writes before the command line of a process, as a shell would."""

_REMEDIES = {
    "process": "-s, as workshop record py-spy does",
    "thread": "--threads",
    "rank": "workshop record py-spy -- torchrun …",
}
_UNKNOWN = {"process": "a process without a number", "thread": "a thread without a number", "rank": "no rank"}
_TORCHRUN = re.compile(
    r"(^|[/\\ ])(torchrun|torch\.distributed\.(run|launch)|torch[/\\]distributed[/\\](run|launch)\.py)\b"
)

ProcessId = tuple[str, int]
"""The file that a process was recorded in, and its PID there; -1 if the recording does not name processes."""


def split(recording: Recording, by: str) -> dict[str, Recording]:
    """Return the recording of each process, thread or rank: ranks in their order, others in that of their samples.

    Raises:
        WorkshopError: the recording does not tell them apart.
    """
    label = {"process": _process_labels, "thread": _thread_labels, "rank": _rank_labels}[by](recording)
    stacks: dict[str, list[Stack]] = defaultdict(list)
    for stack in recording.stacks:
        stacks[label(stack)].append(stack)
    if stacks.keys() <= {_UNKNOWN[by]}:
        raise WorkshopError(f"this recording does not tell one {by} from another; record with {_REMEDIES[by]}")
    groups = {name: Recording(found) for name, found in stacks.items()}
    if by == "rank":
        return dict(sorted(groups.items(), key=lambda item: _rank_order(item[0])))
    return dict(sorted(groups.items(), key=lambda item: (-item[1].samples, item[0])))


def workers(recording: Recording) -> set[ProcessId]:
    """Return the processes that are DataLoader workers."""
    return {
        process_id(stack)
        for stack in recording.stacks
        if any(frame.name == WORKER_LOOP and "_utils" in frame.path for frame in stack.frames)
    }


def waiting_threads(recording: Recording) -> Callable[[Stack], bool]:
    """Return a function that tells whether a stack is of a thread that does nothing but wait, and is no main thread.

    It waits in 90 % of its samples. Such are the thread with which tqdm looks after its bars, and those that feed a
    queue to other processes.
    """
    samples, waits = Counter[object](), Counter[object]()
    is_user_code = CodeOrigins(recording).is_user_code  # a function of one's own that is called get may do anything
    for stack in recording.stacks:
        if started := _thread_begin(stack):
            leaf = stack.frames[-1]
            samples[started] += stack.samples
            waits[started] += stack.samples * (
                leaf.name.rpartition(".")[2].lstrip("_") in WAITING and not is_user_code(leaf)
            )
    only_wait = {thread for thread, count in waits.items() if count >= 0.9 * samples[thread]}
    return lambda stack: _thread_begin(stack) in only_wait


def _thread_begin(stack: Stack) -> object:
    """The function that a thread runs, which tells the threads of a process apart if they have no names."""
    if not stack.frames or stack.frames[0].name.rpartition(".")[2] != "_bootstrap":
        return None
    runs = next((frame for frame in stack.frames if not frame.path.endswith("threading.py")), stack.frames[-1])
    return process_id(stack), stack.thread, runs.name, runs.path


def process_id(stack: Stack) -> ProcessId:
    """Return the process that ran the frames of a stack."""
    return stack.source, stack.processes[-1].pid if stack.processes else -1


def process_label(stack: Stack, is_worker: bool) -> str:
    """Return the PID and the command line of the process that ran the frames of a stack, which must name one."""
    pid, command = stack.processes[-1]
    return f"{pid} {WORKER if is_worker else ' '.join(command.split())}".rstrip()


def _process_labels(recording: Recording) -> Callable[[Stack], str]:
    of_workers = workers(recording)

    def label(stack: Stack) -> str:
        if not stack.processes:
            return _UNKNOWN["process"]
        text = process_label(stack, process_id(stack) in of_workers)
        return f"{Path(stack.source).name}: {text}" if len(recording.sources) > 1 else text

    return label


def _thread_labels(recording: Recording) -> Callable[[Stack], str]:
    several = len({process_id(stack) for stack in recording.stacks}) > 1
    names: dict[tuple[ProcessId, str], str] = {}
    for stack in recording.stacks:
        if stack.thread and stack.thread.name:  # it gets its name some time after it has begun
            names[process_id(stack), stack.thread.id] = stack.thread.name

    def label(stack: Stack) -> str:
        if stack.thread is None:
            return _UNKNOWN["thread"]
        text = f"thread {stack.thread.id} {names.get((process_id(stack), stack.thread.id), '')}".rstrip()
        return f"{stack.processes[-1].pid}, {text}" if several and stack.processes else text

    return label


def _rank_labels(recording: Recording) -> Callable[[Stack], str]:
    children: dict[ProcessId, set[int]] = defaultdict(set)
    for stack in recording.stacks:
        for parent, child in pairwise(stack.processes):
            if _TORCHRUN.search(parent.command):
                children[stack.source, parent.pid].add(child.pid)

    def label(stack: Stack) -> str:
        for process in stack.processes:
            if found := _RANK.match(process.command):
                return f"rank {found[1]}"
        name = Path(stack.source).name
        if rank := re.search(r"rank[-_]?(\d+)", name):
            return f"rank {rank[1]}"
        node = re.search(r"node[-_]?(\d+)", name)
        on_node = f"node {node[1]}, " if node else ""
        for parent, child in pairwise(stack.processes):
            siblings = sorted(children.get((stack.source, parent.pid), ()))
            if child.pid in siblings:  # torchrun starts them in the order of their ranks
                return f"{on_node}local rank {siblings.index(child.pid)}"
        return f"{on_node}{_UNKNOWN['rank']}"

    return label


def _rank_order(label: str) -> tuple[bool, list[int]]:
    return label.endswith(_UNKNOWN["rank"]), [int(number) for number in re.findall(r"\d+", label)]
