"""Splits the samples of a recording by process, thread or rank, and finds the DataLoader workers among them."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

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
_TORCHRUN = re.compile(
    r"(^|[/\\ ])(torchrun|torch\.distributed\.(run|launch)|torch[/\\]distributed[/\\](run|launch)\.py)\b"
)

ProcessId = tuple[str, int]
"""The file that a process was recorded in, and its PID there; -1 if the recording does not name processes."""


class GroupLabel(NamedTuple):
    """What the group of a stack is called."""

    text: str
    numbers: tuple[int, ...] = ()
    """Of a rank: its node, if that is known, and its number, by which ranks are sorted."""
    is_known: bool = True
    """Whether the recording tells the process, thread or rank of the stack."""


def split(recording: Recording, by: str) -> dict[str, Recording]:
    """Return the recording of each process, thread or rank: ranks in their order, others in that of their samples.

    Raises:
        WorkshopError: the recording does not tell them apart.
    """
    label = {"process": _process_labels, "thread": _thread_labels, "rank": _rank_labels}[by](recording)
    stacks: dict[GroupLabel, list[Stack]] = defaultdict(list)
    for stack in recording.stacks:
        stacks[label(stack)].append(stack)
    if not any(each.is_known or each.numbers for each in stacks):
        raise WorkshopError(f"this recording does not tell one {by} from another; record with {_REMEDIES[by]}")
    groups = [(each, Recording(found)) for each, found in stacks.items()]
    if by == "rank":
        groups.sort(key=lambda group: (not group[0].is_known, group[0].numbers))
    else:
        groups.sort(key=lambda group: (-group[1].samples, group[0].text))
    return {each.text: found for each, found in groups}


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


def _process_labels(recording: Recording) -> Callable[[Stack], GroupLabel]:
    of_workers = workers(recording)

    def label(stack: Stack) -> GroupLabel:
        if not stack.processes:
            return GroupLabel("a process without a number", is_known=False)
        text = process_label(stack, process_id(stack) in of_workers)
        return GroupLabel(f"{Path(stack.source).name}: {text}" if len(recording.sources) > 1 else text)

    return label


def _thread_labels(recording: Recording) -> Callable[[Stack], GroupLabel]:
    several = len({process_id(stack) for stack in recording.stacks}) > 1
    names: dict[tuple[ProcessId, str], str] = {}
    for stack in recording.stacks:
        if stack.thread and stack.thread.name:  # it gets its name some time after it has begun
            names[process_id(stack), stack.thread.id] = stack.thread.name

    def label(stack: Stack) -> GroupLabel:
        if stack.thread is None:
            return GroupLabel("a thread without a number", is_known=False)
        text = f"thread {stack.thread.id} {names.get((process_id(stack), stack.thread.id), '')}".rstrip()
        return GroupLabel(f"{stack.processes[-1].pid}, {text}" if several and stack.processes else text)

    return label


def _rank_labels(recording: Recording) -> Callable[[Stack], GroupLabel]:
    children: dict[ProcessId, set[int]] = defaultdict(set)
    for stack in recording.stacks:
        for parent, child in pairwise(stack.processes):
            if _TORCHRUN.search(parent.command):
                children[stack.source, parent.pid].add(child.pid)

    def label(stack: Stack) -> GroupLabel:
        name = Path(stack.source).name
        named = (_RANK.match(process.command) for process in stack.processes)
        if rank := next(filter(None, named), None) or re.search(r"rank[-_]?(\d+)", name):
            return GroupLabel(f"rank {rank[1]}", (int(rank[1]),))
        node = re.search(r"node[-_]?(\d+)", name)
        on_node, numbers = (f"node {node[1]}, ", (int(node[1]),)) if node else ("", ())
        for parent, child in pairwise(stack.processes):
            siblings = sorted(children.get((stack.source, parent.pid), ()))
            if child.pid in siblings:  # torchrun starts them in the order of their ranks
                number = siblings.index(child.pid)
                return GroupLabel(f"{on_node}local rank {number}", (*numbers, number))
        return GroupLabel(f"{on_node}no rank", numbers, is_known=False)

    return label
