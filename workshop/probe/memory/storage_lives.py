"""Follows every storage of a tensor from its allocation to its end.

Between the operators of torch and what computes them, a dispatch mode sees each storage born. A weak reference tells
when it is gone, also long after the mode has been left.
"""

import math
import os
import threading
from collections.abc import Callable, Iterable
from functools import cache
from time import time_ns  # the script may replace that of the module
from typing import Any
from weakref import ref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from workshop.probe.audience import Audience
from workshop.probe.internals import SHARING, can_leave, newest_sequence_number, node_at_work, sequence_number
from workshop.probe.memory.memory_notes import Group, TensorKind
from workshop.probe.memory.user_stacks import UserStacks
from workshop.probe.replaced_function import replace_function

BEFORE = -1
"""The step of what was allocated before the first one."""

UNSEEN = -2
"""Stands for the step of what was found later, as it was allocated in one that was not recorded."""

RANKS = {kind: number for number, kind in enumerate(TensorKind)}

OTHER_STORAGE = ("set_", "resize")
"""Operators that give a tensor another storage: the first letters of their names."""

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Other classes of tensors are made of such ones."""


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the tensors that have storages: of a sparse one, its values and indices; of layouts not known, none."""
    layout = tensor.layout
    if layout is torch.strided:
        return (tensor,)
    if layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return ()


@cache
def gives_back(operator: Any) -> bool:
    """Return whether what an operator returns has the storage of what it was given, as a view has."""
    schema = operator._schema
    name = schema.name.partition("::")[2]
    if name.startswith(OTHER_STORAGE) or "out" in schema.overload_name:
        return False
    return any(each.alias_info is not None for each in schema.returns)


class Life(ref[Any]):
    """The life of a storage."""

    __slots__ = (
        *("began_ns", "born_ns", "called_from", "device", "died_ns", "dtype", "is_ours"),
        *("key", "kind", "made_by", "segment", "size", "stack", "step"),
    )

    key: int
    """The address of the storage in memory."""
    size: int
    device: str
    dtype: torch.dtype
    stack: int
    """The number of the stack of user frames on which it was allocated, or of what a backward pass computes, on which
    the forward pass came here; -1 if that is not known."""
    called_from: int
    """The number of the stack on which it was allocated, in any case."""
    made_by: int
    """The number of the node of a graph that has made it in a backward pass; 0 for others."""
    step: int
    kind: TensorKind
    began_ns: int
    """When the operator began that has made it."""
    born_ns: int
    """When that operator was done."""
    died_ns: int
    """When it was freed; 0 if it was not."""
    is_ours: bool
    """Whether torch's allocator has allocated it in a segment; otherwise it was only found."""
    segment: int

    @property
    def group(self) -> Group:
        """The row of a table that it belongs to."""
        return self.device, self.kind, self.stack, str(self.dtype).removeprefix("torch.")


class StorageLives(TorchDispatchMode):
    """Notes the births of storages in this thread while it is entered, and their ends always.

    Args:
        on_failure: called when an allocation has failed, with everything still there.

    Attributes:
        alive: the storages that are known and there, by their address.
        dead: those that have ended since the segment began.
        step: the number of the present step, which is noted with each birth.
        segment: the number of the present segment.
        operations: how many operators were seen in this segment.
        most_operations: after so many, nothing more is noted in it.
        fault: what has failed here; nothing is noted from then on.
    """

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        super().__init__()
        self.alive: dict[int, Life] = {}
        self.dead: list[Life] = []
        self.step, self.segment = BEFORE, 0
        self.stacks = UserStacks()
        self.fault: Exception | None = None
        self.operations, self.most_operations = 0, math.inf
        self._on_failure = on_failure
        self._is_entered, self._in_inference, self._keeps_dead = False, False, False
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._made_by: dict[int, int] = {}

    def begin(self) -> None:
        """Begin a segment."""
        self.segment += 1
        self.dead, self._made_by = [], {}
        self._keeps_dead, self._thread = True, threading.get_ident()
        if not self._is_entered:
            self._is_entered, self._in_inference = True, torch.is_inference_mode_enabled()
            self.__enter__()

    def end(self) -> None:
        """Leave the mode, unless the script has entered another one inside, or inference, which that would break."""
        self._keeps_dead = False
        if self._is_entered and can_leave(self, self._in_inference):
            self._is_entered = False
            self.__exit__(None, None, None)

    def leave_fork(self) -> None:
        """Leave the mode in a process that was forked with it."""
        self._pid = 0
        self._in_inference = True  # the process comes to the end of none that was begun before
        self.end()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, and note the storages that it returns."""
        began_ns = time_ns()
        try:
            result = function(*args, **(kwargs or {}))
        except (RuntimeError, MemoryError) as error:
            if self._keeps_dead and self._pid == os.getpid():
                self._on_failure(error)
            raise
        if self._keeps_dead and self.fault is None and self.operations < self.most_operations:
            try:
                self.operations += 1
                is_given_back = gives_back(function)
                for each in result if isinstance(result, (tuple, list)) else (result,):
                    if type(each) in PLAIN:
                        for part in parts_of(each):
                            self._note(part, began_ns, is_given_back)
            except Exception as error:
                self.fault = error
        return result

    def _note(self, tensor: torch.Tensor, began_ns: int, is_given_back: bool) -> None:
        storage = tensor.untyped_storage()
        life = self.alive.get(storage._cdata)
        if life is None or life() is None:
            if is_given_back:
                self.adopt(tensor, -1)
            elif tensor.device.type != "meta" and storage.nbytes():
                self._born_in_operator(tensor, storage, began_ns)
        elif life.size != storage.nbytes():
            self.moved(life, storage)

    def _born_in_operator(self, tensor: torch.Tensor, storage: Any, began_ns: int) -> None:
        """Note a birth; in a backward pass, on the stack of the forward pass that has made the node at work."""
        here = self.stacks.here(3)
        life = self._born(tensor, storage, began_ns, here, True)
        if torch.is_grad_enabled():
            self._made_by.setdefault(newest_sequence_number(), here)
        elif (node := node_at_work()) is not None:
            life.kind, life.stack, life.made_by = TensorKind.BACKWARD, self.stack_of(node, here), sequence_number(node)

    def stack_of(self, node: Any, otherwise: int = -1) -> int:
        """Return the number of the stack on which this segment has made a node of a graph."""
        return self._made_by.get(sequence_number(node), otherwise)

    def _born(self, tensor: torch.Tensor, storage: Any, began_ns: int, stack: int, is_ours: bool) -> Life:
        life = Life(storage, self._died)
        life.key, life.size, life.device = storage._cdata, storage.nbytes(), str(tensor.device)
        life.dtype, life.stack, life.called_from, life.step = tensor.dtype, stack, stack, self.step
        life.began_ns, life.born_ns, life.died_ns = began_ns, time_ns(), 0
        life.is_ours, life.segment, life.kind, life.made_by = is_ours, self.segment, TensorKind.OTHERS, 0
        self.alive[life.key] = life
        return life

    def moved(self, life: Life, storage: Any) -> None:
        """Let a storage begin another life elsewhere, as in shared memory, or of another size: the former is freed.

        The allocator tells of it only in the thread that has begun the segment.
        """
        self._died(life)
        other = Life(storage, self._died)
        for name in Life.__slots__:
            setattr(other, name, getattr(life, name))
        other.size, other.began_ns, other.born_ns, other.died_ns = storage.nbytes(), life.died_ns, life.died_ns, 0
        if self._keeps_dead and threading.get_ident() == self._thread:
            other.is_ours, other.segment = True, self.segment
        self.alive[other.key] = other

    def _died(self, life: Life) -> None:
        if life.died_ns:
            return  # it has moved
        life.died_ns = time_ns()
        if self.alive.get(life.key) is life:
            del self.alive[life.key]
        if self._keeps_dead:
            self.dead.append(life)

    def find(self, tensor: Any) -> Life | None:
        """Return the life of a tensor's storage; None if it is not known, or has none."""
        if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return None
        return self.alive.get(tensor.untyped_storage()._cdata)

    def adopt(self, tensor: Any, stack: int, is_new: bool = False) -> Life | None:
        """Return the life of a tensor's storage; if it is not known, it `is_new`, or was there before the segment."""
        if type(tensor) not in PLAIN or tensor.device.type == "meta" or tensor.layout is not torch.strided:
            return None
        storage = tensor.untyped_storage()
        life = self.alive.get(storage._cdata)
        if life is not None and life() is not None:
            return life
        if not storage.nbytes():
            return None
        now = time_ns()
        life = self._born(tensor, storage, now, stack, False)
        if not is_new:
            life.segment, life.step = 0, BEFORE
        return life

    def mark(self, kind: TensorKind, tensors: Iterable[Any]) -> None:
        """Let tensors be of a kind, unless they are of an earlier one of `TensorKind`."""
        for each in tensors:
            life = self.adopt(each, -1)
            if life is not None and RANKS[kind] < RANKS[life.kind]:
                if life.kind is TensorKind.BACKWARD:
                    life.stack = life.called_from
                life.kind = kind


def watch_sharing(lives_now: Callable[[], StorageLives], audience: Audience) -> None:
    """Follow storages that move to shared memory, as those of a dataset do that is sent to a worker that is spawned.

    Another thread may send it.

    Args:
        lives_now: returns the storages that are known.
        audience: takes care of what fails.
    """
    for name in SHARING:
        share = _watched(getattr(torch.UntypedStorage, name), lives_now, audience)
        replace_function(torch.UntypedStorage, name, share)


def _watched(
    original: Callable[..., Any], lives_now: Callable[[], StorageLives], audience: Audience
) -> Callable[..., Any]:
    pid = os.getpid()

    def share(storage: Any, *args: Any, **options: Any) -> Any:
        lives = lives_now()
        life = None if storage.is_shared() else lives.alive.get(storage._cdata)
        result = original(storage, *args, **options)
        if life is not None and os.getpid() == pid:
            with audience:
                lives.moved(life, storage)
        return result

    return share
