"""Tells who holds the tensors of a process: variables, what they lead to, and graphs."""

import gc
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any, NamedTuple

import torch

from workshop.probe.backward_graph import saved_by_graphs
from workshop.probe.internals import saved_tensors, sequence_number
from workshop.probe.memory.memory_notes import OF_TRAINING, Group, TensorRow
from workshop.probe.memory.segment_table import FIRST_STEPS
from workshop.probe.memory.storage_lives import PLAIN, UNSEEN, Life, StorageLives, parts_of
from workshop.probe.memory.variables import Variable, tensor_variables
from workshop.probe.observations import WireFrame

MAX_NODES = 200_000
"""Nodes of graphs together, at most, that are gone through."""

MAX_GROUPS = 24
"""Groups of tensors of which holders are looked for, at most: the largest ones."""

MAX_OLD_GRAPHS = 3
"""Holders of graphs that go back to earlier steps, at most, that are told."""

MAX_KINDS, OF_EACH = 8, 4
"""Kinds of such graphs by the operation that they end with, and graphs of each kind, at most, that are looked at."""


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
        by_group: the holder of most of a group's tensors, as far as some of them were looked at: fields of `TensorRow`.
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

    def _name_groups(self, lives: StorageLives) -> dict[Group, dict[str, Any]]:
        groups = defaultdict[Group, list[Life]](list)
        for each in lives.alive.values():
            if each.kind not in OF_TRAINING:
                groups[each.group].append(each)
        largest = sorted(groups, key=lambda each: sum(life.size for life in groups[each]), reverse=True)[:MAX_GROUPS]
        asked: list[tuple[Life, bool, torch.Tensor]] = []
        for group in largest:
            for life in self._typical(groups[group]):
                asked += [(life, False, tensor) for tensor in _views_first(self._pythons[life.key])]
                if (root := self._root_of.get(life.key)) is not None:
                    asked.append((life, True, self._roots[root]))
        found: dict[int, tuple[Variable, bool]] = {}
        for life, by_graph, tensor in asked:
            if (holder := self._variables.get(id(tensor))) is not None:
                found.setdefault(life.key, (holder, by_graph))
        for group, of_group in groups.items():
            self.viewed[group] = sum(map(self._viewed, of_group))
        of_groups = defaultdict[Group, dict[int, Life]](dict)
        for life, *_ in asked:
            of_groups[life.group][life.key] = life
        return {group: self._holder_of_most(list(of.values()), found) for group, of in of_groups.items()}

    def _typical(self, lives: list[Life]) -> list[Life]:
        """The oldest, one of the middle, and the newest of what earlier steps have left, or else of all."""
        by_step = {step: each for each in lives if (step := self._left_by(each)) is not None}
        unseen = by_step.pop(UNSEEN, None)
        ordered = [by_step[step] for step in sorted(by_step)] or ([unseen] if unseen else [])
        if unseen is not None and len(ordered) == 1 and unseen is not ordered[0]:
            ordered.append(unseen)
        ordered = ordered or sorted(lives, key=lambda each: each.step)
        return list(dict.fromkeys([ordered[len(ordered) // 2], ordered[0], ordered[-1]]))

    def _holder_of_most(self, asked: list[Life], found: dict[int, tuple[Variable, bool]]) -> dict[str, Any]:
        """Who holds at least half of some storages of a group; empty if nobody does."""
        of_holders = defaultdict[tuple[str, bool, WireFrame], list[Life]](list)
        for each in asked:
            if each.key in found:
                holder, by_graph = found[each.key]
                of_holders[holder.name, by_graph, holder.frame].append(each)

        def held(lives: list[Life]) -> tuple[int, int]:
            steps = {step for each in lives if (step := self._left_by(each)) is not None}
            return sum(each.size for each in lives), len(steps)

        most = max(of_holders.values(), key=held, default=[])
        size, steps = held(most)
        if not most or 2 * size < sum(each.size for each in asked):
            return {}
        holder, by_graph = found[most[0].key]
        about = {"holder": holder.name, "holder_stack": holder.stack, "holder_limit": holder.limit}
        return {**about, "holder_steps": steps, "by_graph": by_graph}

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
        """What each holder has of graphs that go back to earlier steps, counted at some graphs of each kind."""
        kinds = defaultdict[str, list[_OldRoot]](list)
        for root, nodes in zip(self._roots, self._nodes_of, strict=True):
            numbers = [sequence_number(node) for node in nodes]
            old = [each for each in numbers if ends and 0 < each < ends[-1]]
            if old:
                of_epoch, by = sum(each >= epoch_at for each in old), {bisect(ends, each) for each in old}
                kinds[type(root.grad_fn).__name__].append(_OldRoot(root, len(old), of_epoch, by))
        largest = sorted(kinds.values(), key=lambda each: -sum(one.operations for one in each))[:MAX_KINDS]
        asked = [(each, of_kind) for of_kind in largest for each in _some(of_kind)]
        held = defaultdict[tuple[str, tuple[WireFrame, ...]], list[tuple[float, float, set[int]]]](list)
        for each, of_kind in asked:
            holder = self._variables.get(id(each.root))
            share = each.operations / sum(one.operations for one in _some(of_kind))
            old_of_kind, of_epoch = (sum(figures) for figures in zip(*(one[1:3] for one in of_kind), strict=True))
            key = (holder.name, holder.stack) if holder else ("", ())
            held[key].append((share * old_of_kind, share * of_epoch, each.steps))
        found = [
            {
                "holder": holder,
                "holder_stack": stack,
                "old_operations": round(sum(each for each, _, _ in of)),
                "epoch_operations": round(sum(each for _, each, _ in of)),
                "holder_steps": len(set().union(*(each for _, _, each in of))),
            }
            for (holder, stack), of in held.items()
        ]
        return sorted(found, key=lambda each: each["old_operations"], reverse=True)[:MAX_OLD_GRAPHS]


class _OldRoot(NamedTuple):
    """A tensor whose graph goes back to earlier steps."""

    root: torch.Tensor
    operations: int
    """Those of its graph that are of earlier steps, and belong to no newer root."""
    of_epoch: int
    """Those of them that are of the present epoch."""
    steps: set[int]
    """The steps that have made them."""


def _some(roots: list[_OldRoot]) -> list[_OldRoot]:
    """The largest of some graphs, and others from all over the time."""
    step = max(len(roots) // (OF_EACH - 1), 1)
    largest = max(roots, key=lambda each: each.operations)
    return [largest, *(each for each in roots[::step] if each is not largest)][:OF_EACH]


def _views_first(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A view of a storage, and a tensor that is none, if there are such."""
    views, others = ([each for each in tensors if each._is_view() == is_view][:1] for is_view in (True, False))
    return [*views, *others]


def tensors_of_python() -> list[torch.Tensor]:
    """Return every tensor that Python code can reach."""
    kinds: dict[type, bool] = {}
    found = []
    for each in gc.get_objects():
        kind = type(each)
        is_one = kinds.get(kind)
        if is_one is None:
            is_one = kinds[kind] = torch.Tensor in getattr(kind, "__mro__", ())
        if is_one:
            found.append(each)
    return found


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
