"""Merges stacks into one tree, which flame graphs draw."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from workshop.profiles import sample_groups
from workshop.profiles.code_origin import CodeOrigins
from workshop.profiles.stacks import Frame, Recording, Stack


class Kind(StrEnum):
    """The kinds of nodes, each with a colour."""

    USER = "user"
    LIBRARY = "library"
    NATIVE = "native"
    WORKER = "worker"
    """A DataLoader worker, and the library code that it runs."""
    PROCESS = "process"
    """A process or thread, or all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Label:
    """The text and the kind of a node; equal nodes share one object, because comparing identities is quick."""

    text: str
    kind: Kind

    @property
    def is_import(self) -> bool:
        """Whether it is the frame with which an import begins; what is below it is seldom of interest."""
        return self.text.startswith("_find_and_load (")


WAITING_THREADS = "threads that only wait"
"""The text of a node that such threads are put below."""


class Node:
    """A frame below its callers; there may be millions of nodes."""

    __slots__ = ("before", "children", "label", "samples")

    def __init__(self, label: Label) -> None:
        self.label = label
        self.samples = 0
        """The samples with the frame on the stack."""
        self.before = 0
        """The same number in the recording to compare with."""
        self.children: dict[Label, Node] | None = None

    def sorted_children(self) -> list["Node"]:
        """Return the children, the largest first, and equally large ones by their texts."""
        if self.children is None:
            return []
        if len(self.children) == 1:
            return list(self.children.values())
        return sorted(self.children.values(), key=lambda node: (-max(node.samples, node.before), node.label.text))


def build(recording: Recording, before: Recording | None = None, library: str = "") -> Node:
    """Return the tree of a recording.

    Args:
        recording: the stacks.
        before: a recording to compare with. The lines of a function, and processes and threads, are then merged,
            because they differ from run to run.
        library: a text that the paths of the user's code contain; see `CodeOrigins`.
    """
    labels = cache(Label)
    root = Node(labels("all", Kind.PROCESS))
    if before is not None:
        _add(root, labels, before, library, compared=True)
        for node in _nodes(root):
            node.before, node.samples = node.samples, 0
    _add(root, labels, recording, library, compared=before is not None)
    return root


def _add(root: Node, labels: Callable[[str, Kind], Label], recording: Recording, library: str, compared: bool) -> None:
    origins = CodeOrigins(recording, library)
    workers = sample_groups.workers(recording)
    only_waits = sample_groups.waiting_threads(recording)
    several = len(recording.sources) > 1
    of_frames: dict[bool, dict[Frame, Label]] = {False: {}, True: {}}
    for stack in recording.stacks:
        in_worker = sample_groups.process_id(stack) in workers
        above = [
            labels(text, Kind.WORKER if in_worker else Kind.PROCESS)
            for text in _above(stack, in_worker, several, compared)
        ]
        if only_waits(stack):
            above.append(labels(WAITING_THREADS, Kind.PROCESS))
        known = of_frames[in_worker]
        try:
            frames = [known[frame] for frame in stack.frames]
        except KeyError:
            for frame in stack.frames:
                kind = Kind(origins(frame))
                text = str(frame._replace(line=None)) if compared else str(frame)
                known[frame] = labels(text, Kind.WORKER if in_worker and kind == Kind.LIBRARY else kind)
            frames = [known[frame] for frame in stack.frames]
        _count(root, [*above, *frames], stack.samples)


def _count(node: Node, path: list[Label], samples: int) -> None:
    node.samples += samples
    for label in path:
        if node.children is None:
            node.children = {}
        child = node.children.get(label)
        if child is None:
            child = node.children[label] = Node(label)
        child.samples += samples
        node = child


def _above(stack: Stack, in_worker: bool, several: bool, compared: bool) -> list[str]:
    """Return the file, the process and the thread of a stack, as far as there are several."""
    if compared:
        return [sample_groups.WORKER if in_worker else "process"] if stack.processes else []
    labels = [Path(stack.source).name] if several else []
    if stack.processes:
        labels.append(sample_groups.process_label(stack, in_worker))
    if stack.thread:
        labels.append(f"thread {stack.thread.id} {stack.thread.name}".rstrip())
    return labels


def _nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += (node.children or {}).values()
