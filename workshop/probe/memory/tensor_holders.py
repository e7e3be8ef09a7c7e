"""Tells who holds the tensors of a process: variables, what they lead to, and graphs."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from workshop.probe.backward_graph import MAX_KEPT, saved_by_graphs
from workshop.probe.garbage import all_of
from workshop.probe.internals import saved_tensors, sequence_number
from workshop.probe.memory.memory_notes import FIRST_STEPS, OF_TRAINING, Group, TensorRow
from workshop.probe.memory.storage_lives import PLAIN, Life, StorageLives, parts_of
from workshop.probe.memory.variables import Variable, tensor_variables
from workshop.probe.observations import WireFrame

MAX_OLD_GRAPHS = 3
"""Holders of graphs that go back to earlier steps, at most, that are told."""


class TensorHolders:
    """Who holds the tensors that there are at this moment.

    Args:
        lives: the storages that are known.
        left_by: returns the step, or the call of a validation, that has left a storage, and which is over for so long
            that no variable of a loop has anything of it; None for others.
        ends: the sequence number of the next node as each of the earlier steps ended, or began in a validation; what
            was made before the last of them is old.
        extra_frames: frames of a traceback, whose variables are still there.
        epoch_at: the sequence number of the first node of the epoch.

    Attributes:
        by_group: the holder of most of a group's tensors, in the fields of `TensorRow`.
        viewed: how much of a group's storages tensors of Python are views of.
        old_graphs: the fields of an `OldGraph` for each of the largest graphs that go back to earlier steps.
    """

    def __init__(
        self,
        lives: StorageLives,
        left_by: Callable[[Life], int | None],
        ends: Sequence[int] = (),
        extra_frames: Iterable[FrameType] = (),
        epoch_at: int = 0,
    ) -> None:
        self._left_by, self._variables = left_by, tensor_variables(extra_frames)
        self._pythons, self._roots = defaultdict[int, list[torch.Tensor]](list), list[torch.Tensor]()
        self.viewed = defaultdict[Group, int](int)
        for each in tensors_of_python():
            if type(each) in PLAIN and (life := lives.find(each)) is not None:
                self._pythons[life.key].append(each)
            if each.grad_fn is not None:
                self._roots.append(each)
        self._roots.sort(key=lambda each: sequence_number(each.grad_fn), reverse=True)
        self._root_of, self._nodes_of = self._walk()
        self.by_group = self._name_groups(lives)
        self.old_graphs = self._old_graphs(ends, epoch_at)
        del self._pythons, self._roots, self._root_of, self._nodes_of, self._variables  # nothing is kept alive by this

    def _walk(self) -> tuple[dict[int, int], list[list[Any]]]:
        """The newest root whose graph keeps each storage, by its address; and the nodes that belong to each root.

        Tensors inside of a graph, which nothing else holds, are roots of its parts, and come after its own root.
        """
        root_of: dict[int, int] = {}
        nodes_of: list[list[Any]] = []
        seen = set[Any]()
        for number, root in enumerate(self._roots):
            own, ahead = [], [root.grad_fn]
            while ahead and len(seen) < MAX_KEPT:
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

    def _name_groups(self, lives: StorageLives) -> dict[Group, dict[str, Any]]:
        groups = defaultdict[Group, list[Life]](list)
        for each in lives.alive.values():
            if each.kind not in OF_TRAINING:
                groups[each.group].append(each)
        for group, of_group in groups.items():
            self.viewed[group] = sum(map(self._viewed, of_group))
        return {group: self._holder_of_most(of_group) for group, of_group in groups.items()}

    def _holder_of_most(self, lives: list[Life]) -> dict[str, Any]:
        """Who holds at least half of what earlier steps have left, or else of all; empty if nobody does."""
        lives = [each for each in lives if self._left_by(each) is not None] or lives
        of_holders = defaultdict[tuple[str, bool, WireFrame], list[Life]](list)
        for each in reversed(lives):
            if held := self._held(each):
                holder, by_graph = held
                of_holders[holder.name, by_graph, holder.frame].append(each)

        def weight(of: list[Life]) -> tuple[int, int]:
            steps = {step for each in of if (step := self._left_by(each)) is not None}
            return sum(each.size for each in of), len(steps)

        most = max(of_holders.values(), key=weight, default=[])
        size, steps = weight(most)
        if not most or not (held := self._held(most[0])) or 2 * size < sum(each.size for each in lives):
            return {}
        holder, by_graph = held
        about = {"holder": holder.name, "holder_stack": holder.stack, "holder_limit": holder.limit}
        return {**about, "holder_steps": steps, "by_graph": by_graph}

    def _held(self, life: Life) -> tuple[Variable, bool] | None:
        """Who holds a storage, by a view of it if there is one, and whether a graph does that the holder has."""
        views_first = sorted(self._pythons[life.key], key=lambda each: not each._is_view())
        held = [(self._variables[id(each)], False) for each in views_first if id(each) in self._variables]
        root = self._root_of.get(life.key)
        if root is not None and id(self._roots[root]) in self._variables:
            held.append((self._variables[id(self._roots[root])], True))
        return held[0] if held else None

    def _viewed(self, life: Life) -> int:
        """How much of a storage tensors of Python are views of.

        A tensor that was there before its views may have no holder but them. It counts if somebody is known to hold it.
        """
        tensors = self._pythons[life.key]
        views = [each for each in tensors if each._is_view()]
        counted = [each for each in tensors if not views or each._is_view() or id(each) in self._variables]
        return min(sum(each.numel() * each.element_size() for each in counted), life.size)

    def with_holders(self, rows: Sequence[TensorRow]) -> list[TensorRow]:
        """Return rows with their holders."""
        return [
            replace(each, viewed_bytes=self.viewed[each.group], **self.by_group.get(each.group, {})) for each in rows
        ]

    def _old_graphs(self, ends: Sequence[int], epoch_at: int) -> list[dict[str, Any]]:
        """What each holder has of graphs that go back to earlier steps: operations that belong to no newer root."""
        held = defaultdict[tuple[str, tuple[WireFrame, ...]], list[int]](list)
        for root, nodes in zip(self._roots, self._nodes_of, strict=True):
            if old := [number for each in nodes if ends and 0 < (number := sequence_number(each)) < ends[-1]]:
                holder = self._variables.get(id(root))
                held[(holder.name, holder.stack) if holder else ("", ())] += old
        largest = sorted(held.items(), key=lambda each: len(each[1]), reverse=True)[:MAX_OLD_GRAPHS]
        return [
            {
                "holder": holder,
                "holder_stack": stack,
                "old_operations": len(old),
                "epoch_operations": sum(each >= epoch_at for each in old),
                "holder_steps": len({bisect(ends, each) for each in old}),
            }
            for (holder, stack), old in largest
        ]


def tensors_of_python() -> list[torch.Tensor]:
    """Return every tensor that Python code can reach."""
    return all_of(torch.Tensor)


def adopt_unseen(lives: StorageLives) -> None:
    """Take in what there is and was not seen: one like others is taken to be from the same line."""
    alike: dict[Any, Life] = {}
    pythons = tensors_of_python()
    for key, life in (
        *((_looks(each), lives.find(each)) for each in pythons),
        *((_size(each), each) for each in lives.alive.values()),
    ):
        if life is not None and life.step >= FIRST_STEPS:
            alike.setdefault(key, life)
    for each in (*pythons, *saved_by_graphs(each for each in pythons if each.grad_fn is not None)):
        if lives.find(each) is None and (found := lives.adopt(each, -1)) is not None:
            like = alike.get(_looks(each)) or alike.get(_size(found))
            if like is not None:
                found.stack, found.kind, found.step = like.stack, like.kind, max(like.step, FIRST_STEPS)


def _looks(tensor: torch.Tensor) -> Any:
    """What tensors have in common that the same line has made."""
    return str(tensor.device), tensor.dtype, tensor.shape, type(tensor.grad_fn)


def _size(life: Life) -> Any:
    return life.device, life.dtype, life.size
