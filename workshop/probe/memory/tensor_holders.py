"""Tells who holds the tensors of a process: variables, what they lead to, and graphs."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from workshop.probe.internals import saved_tensors, sequence_number
from workshop.probe.memory.holder_names import GRAPH, Holder, name_holders
from workshop.probe.memory.inventory import MAX_NODES, tensors_of_python
from workshop.probe.memory.memory_notes import OF_TRAINING, Group, TensorRow
from workshop.probe.memory.storage_lives import PLAIN, Life, StorageLives, parts_of

MAX_GROUPS = 24
"""Holders are looked for of so many groups of tensors, the largest ones."""

MAX_OLD_GRAPHS = 3


def group_of(life: Life) -> Group:
    """Return the group that a storage belongs to."""
    return life.device, life.kind, life.stack, str(life.dtype).removeprefix("torch.")


class TensorHolders:
    """Who holds the tensors that there are at this moment.

    Args:
        lives: the storages that are known.
        begun_at: the sequence number of a node; what was made before it is old.
        extra_frames: frames of a traceback, whose variables are still there.
        epoch_at: the sequence number of the first node of the epoch.

    Attributes:
        by_group: the holder of most of a group's tensors.
        viewed: how much of a group's storages tensors of Python are views of.
        old_graphs: the fields of an `OldGraph` for each of the largest graphs that go back to earlier steps.
    """

    def __init__(
        self, lives: StorageLives, begun_at: int = 0, extra_frames: Iterable[FrameType] = (), epoch_at: int = 0
    ) -> None:
        self._frames = list(extra_frames)
        self._pythons: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
        self._roots: list[torch.Tensor] = []
        self.viewed: defaultdict[Group, int] = defaultdict(int)
        for each in tensors_of_python():
            if type(each) in PLAIN and (life := lives.find(each)) is not None:
                self._pythons[life.key].append(each)
            if each.grad_fn is not None:
                self._roots.append(each)
        self._roots.sort(key=lambda each: sequence_number(each.grad_fn), reverse=True)
        self._root_of, self._nodes_of = self._walk()
        self.by_group = self._name_groups(lives)
        self.old_graphs = self._old_graphs(begun_at, epoch_at)
        del self._pythons, self._roots, self._root_of, self._nodes_of, self._frames  # nothing is kept alive by this

    def _walk(self) -> tuple[dict[int, int], list[list[Any]]]:
        """The newest root whose graph keeps each storage, by its address; and the nodes that belong to each root.

        Tensors inside of a graph, which nothing else holds, are roots of its parts, and come after its own root.
        """
        root_of: dict[int, int] = {}
        nodes_of: list[list[Any]] = []
        seen = set[Any]()
        for number, root in enumerate(self._roots):
            own, ahead = [], [root.grad_fn]
            while ahead and len(seen) < MAX_NODES:
                node = ahead.pop()
                if node in seen:
                    continue
                seen.add(node)
                own.append(node)
                for kept in saved_tensors(node):
                    for part in parts_of(kept) if type(kept) in PLAIN else ():
                        root_of.setdefault(part.untyped_storage()._cdata, number)
                ahead += [following for following, _ in node.next_functions if following is not None]
            nodes_of.append(own)
        return root_of, nodes_of

    def _name_groups(self, lives: StorageLives) -> dict[Group, tuple[str, Holder]]:
        groups: defaultdict[Group, list[Life]] = defaultdict(list)
        for each in lives.alive.values():
            if each.kind not in OF_TRAINING:
                groups[group_of(each)].append(each)
        largest = sorted(groups, key=lambda each: sum(life.size for life in groups[each]), reverse=True)[:MAX_GROUPS]
        asked: list[tuple[Group, str, torch.Tensor]] = []
        for group in largest:
            for life in _typical(groups[group]):
                asked += [(group, "", tensor) for tensor in _views_first(self._pythons[life.key])]
                if (root := self._root_of.get(life.key)) is not None:
                    asked.append((group, GRAPH, self._roots[root]))
        named = name_holders([tensor for *_, tensor in asked], self._frames)
        found: dict[Group, tuple[str, Holder]] = {}
        held = set[int]()
        for (group, by, tensor), holder in zip(asked, named, strict=True):
            if holder is not None:
                found.setdefault(group, (f"{by}{holder.expression}", holder))
                held.add(id(tensor))
        for group, of_group in groups.items():
            self.viewed[group] = sum(self._viewed(each, held) for each in of_group)
        return found

    def _viewed(self, life: Life, held: set[int]) -> int:
        """How much of a storage tensors of Python are views of.

        A tensor that was there before its views may have no holder but them. It counts if somebody is known to hold it.
        """
        tensors = self._pythons[life.key]
        views = [each for each in tensors if each._is_view()]
        counted = [each for each in tensors if not views or each._is_view() or id(each) in held]
        return min(sum(each.numel() * each.element_size() for each in counted), life.size)

    def with_holders(self, rows: Sequence[TensorRow]) -> list[TensorRow]:
        """Return rows with their holders."""
        found = []
        for each in rows:
            text, holder = self.by_group.get(each.group, ("", None))
            stack = (holder.frame,) if holder else ()
            found.append(replace(each, holder=text, holder_stack=stack, viewed_bytes=self.viewed[each.group]))
        return found

    def _old_graphs(self, begun_at: int, epoch_at: int) -> list[dict[str, Any]]:
        old = [
            (sum(0 < sequence_number(node) < begun_at for node in nodes), root)
            for root, nodes in zip(self._roots, self._nodes_of, strict=True)
        ]
        largest = sorted((each for each in old if each[0]), key=lambda each: each[0], reverse=True)[:MAX_OLD_GRAPHS]
        of_epoch = sum(epoch_at <= sequence_number(node) < begun_at for nodes in self._nodes_of for node in nodes)
        holders = name_holders([root for _, root in largest], self._frames)
        return [
            {
                "holder": holder.expression if holder else "",
                "holder_stack": (holder.frame,) if holder else (),
                "old_operations": sum(count for count, _ in old) if number == 0 else count,
                "epoch_operations": of_epoch if number == 0 else 0,
            }
            for number, ((count, _), holder) in enumerate(zip(largest, holders, strict=True))
        ]


def _views_first(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A view of a storage, and a tensor that is none, if there are such."""
    views, others = ([each for each in tensors if each._is_view() == is_view][:1] for is_view in (True, False))
    return [*views, *others]


def _typical(lives: list[Life]) -> list[Life]:
    """One of the middle, and the oldest and the newest, by the steps in which they were allocated."""
    ordered = sorted(lives, key=lambda each: each.step)
    return [ordered[len(ordered) // 2], ordered[0], ordered[-1]]
