"""Who took the samples of a recording: processes, DataLoader workers, threads, ranks."""

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.profiles.stacks import Recording, Stack

RANK = re.compile(r"RANK=(\d+) ")
"""Before the command of a process, as a shell has it: `workshop record` puts it there."""

_IN_FILE_NAME = {"node": re.compile(r"node[-_]?(\d+)"), "rank": re.compile(r"rank[-_]?(\d+)")}
_TORCHRUN = re.compile(
    r"(^|[/\\ ])(torchrun|torch\.distributed\.(run|launch)|torch[/\\]distributed[/\\](run|launch)\.py)\b"
)

Who = tuple[str, int]
"""A process: the file it was recorded in, and its PID there; -1 where the recording tells none apart."""


def split(recording: Recording, by: str) -> dict[str, Recording]:
    """The recording of each process, thread or rank, by a name for people. The busiest first; ranks in their order.

    Args:
        recording: of one or more files.
        by: "process", "thread" or "rank".

    Raises:
        WorkshopError: the recording does not tell them apart.
    """
    label = {"process": _processes, "thread": _threads, "rank": _ranks}[by](recording)
    groups: dict[str, list[Stack]] = defaultdict(list)
    for stack in recording.stacks:
        groups[label(stack)].append(stack)
    found = {name: Recording(stacks) for name, stacks in groups.items()}
    if by == "rank":
        return dict(sorted(found.items(), key=lambda each: _order(each[0])))
    return dict(sorted(found.items(), key=lambda each: (-each[1].samples, each[0])))


def _order(rank: str) -> tuple[bool, list[int]]:
    return rank.endswith("no rank"), [int(number) for number in re.findall(r"\d+", rank)]


def workers(recording: Recording) -> set[Who]:
    """The processes that are DataLoader workers."""
    return {
        who(stack)
        for stack in recording.stacks
        if any(frame.name == "_worker_loop" and "_utils" in frame.path for frame in stack.frames)
    }


def who(stack: Stack) -> Who:
    """The process that ran a stack's frames."""
    return stack.source, stack.processes[-1].pid if stack.processes else -1


def _processes(recording: Recording) -> Callable[[Stack], str]:
    _demand(any(stack.processes for stack in recording.stacks), "process", "-s, as workshop record py-spy does")
    of_workers = workers(recording)
    several = len({stack.source for stack in recording.stacks}) > 1

    def label(stack: Stack) -> str:
        if not stack.processes:
            return "a process without a number"
        role = "DataLoader worker" if who(stack) in of_workers else stack.processes[-1].command
        text = f"{stack.processes[-1].pid} {' '.join(role.split())}".rstrip()
        return f"{Path(stack.source).name}: {text}" if several else text

    return label


def _threads(recording: Recording) -> Callable[[Stack], str]:
    _demand(any(stack.thread for stack in recording.stacks), "thread", "--threads")
    several = len({who(stack) for stack in recording.stacks}) > 1
    # A thread gets its name some time after it has begun.
    names = {
        (who(stack), stack.thread.id): stack.thread.name
        for stack in recording.stacks
        if stack.thread and stack.thread.name
    }

    def label(stack: Stack) -> str:
        if stack.thread is None:
            return "a thread without a number"
        text = f"thread {stack.thread.id} {names.get((who(stack), stack.thread.id), '')}".rstrip()
        return f"{stack.processes[-1].pid}, {text}" if several and stack.processes else text

    return label


def _ranks(recording: Recording) -> Callable[[Stack], str]:
    children: dict[tuple[str, int], set[int]] = defaultdict(set)
    for stack in recording.stacks:
        for parent, child in zip(stack.processes, stack.processes[1:], strict=False):
            if _TORCHRUN.search(parent.command):
                children[stack.source, parent.pid].add(child.pid)

    def label(stack: Stack) -> str:
        for process in stack.processes:
            if found := RANK.match(process.command):
                return f"rank {found[1]}"
        name = Path(stack.source).name
        node, rank = (pattern.search(name) for pattern in _IN_FILE_NAME.values())
        if rank:
            return f"rank {rank[1]}"
        on_node = f"node {node[1]}, " if node else ""
        for parent, child in zip(stack.processes, stack.processes[1:], strict=False):
            siblings = sorted(children.get((stack.source, parent.pid), ()))
            if child.pid in siblings:  # torchrun starts them in the order of their ranks
                return f"{on_node}local rank {siblings.index(child.pid)}"
        return f"{on_node}no rank"

    _demand(
        any(label(stack) != "no rank" for stack in recording.stacks), "rank", "workshop record py-spy -- torchrun …"
    )
    return label


def _demand(there: bool, by: str, remedy: str) -> None:
    if not there:
        raise WorkshopError(f"this recording does not tell one {by} from another; record with {remedy}")
