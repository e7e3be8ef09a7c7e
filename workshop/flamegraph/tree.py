"""Stacks as one tree: what flame graphs draw."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from workshop.profiles import sample_groups
from workshop.profiles.code_origin import CodeOrigins
from workshop.profiles.stacks import Frame, Recording, Stack


class Kind(StrEnum):
    """What colours tell apart."""

    OWN = "own"
    LIBRARY = "library"
    NATIVE = "native"
    WORKER = "worker"
    """A DataLoader worker, and what it runs of libraries."""
    PROCESS = "process"
    """A process or thread, or all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Label:
    """What a node says. One object serves all nodes that say the same, and is told from others by identity: quickly."""

    text: str
    kind: Kind


class Node:
    """A frame, below the frames that led to it. There may be millions."""

    __slots__ = ("before", "children", "label", "samples")

    def __init__(self, label: Label) -> None:
        self.label = label
        self.samples = 0
        """With it on the stack; in a comparison, after."""
        self.before = 0
        """The same of the recording to compare with."""
        self.children: dict[Label, Node] | None = None

    def sorted_children(self) -> list["Node"]:
        """The largest first; equal ones by their labels."""
        if self.children is None:
            return []
        if len(self.children) == 1:
            return list(self.children.values())
        return sorted(self.children.values(), key=lambda node: (-max(node.samples, node.before), node.label.text))


def build(recording: Recording, before: Recording | None = None, library: str = "") -> Node:
    """The tree of a recording.

    Args:
        recording: the stacks.
        before: another one to compare with. Lines of functions, processes and threads are then not told apart: they are
            others in each run.
        library: what the paths of one's own code contain, beside the script's: see `CodeOrigins`.
    """
    labels = _Labels()
    root = Node(labels("all", Kind.PROCESS))
    _add(root, labels, recording, library, before is not None)
    if before is not None:
        _swap(root)
        _add(root, labels, before, library, True)
        _swap(root)
    return root


class _Labels:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Label] = {}

    def __call__(self, text: str, kind: Kind) -> Label:
        key = text, kind.value
        label = self._known.get(key)
        if label is None:
            label = self._known[key] = Label(text, kind)
        return label


def _add(root: Node, labels: _Labels, recording: Recording, library: str, compared: bool) -> None:
    origins = CodeOrigins(recording, library)
    workers = sample_groups.workers(recording)
    several = len({stack.source for stack in recording.stacks}) > 1
    of_frames: dict[bool, dict[Frame, Label]] = {False: {}, True: {}}
    for stack in recording.stacks:
        in_worker = sample_groups.process_id(stack) in workers
        above = [
            labels(text, Kind.WORKER if in_worker else Kind.PROCESS)
            for text in _above(stack, in_worker, several, compared)
        ]
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
    """File, process and thread, as far as there are some to tell apart."""
    if compared:
        return ["DataLoader worker" if in_worker else "process"] if stack.processes else []
    labels = [Path(stack.source).name] if several else []
    if stack.processes:
        pid, command = stack.processes[-1]
        labels.append(f"{pid} {'DataLoader worker' if in_worker else ' '.join(command.split())}".rstrip())
    if stack.thread:
        labels.append(f"thread {stack.thread.id} {stack.thread.name}".rstrip())
    return labels


def _swap(root: Node) -> None:
    """Of all nodes, what is counted now and what was before."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        node.samples, node.before = node.before, node.samples
        waiting += (node.children or {}).values()
