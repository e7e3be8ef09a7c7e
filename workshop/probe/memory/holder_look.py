"""Looks for who holds the tensors that there are: it takes a moment, and what fails in it is lost, not the script."""

from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from time import time_ns  # the script may replace that of the module
from typing import Any

import torch

from workshop.probe.event_file import EventFile
from workshop.probe.internals import sequence_number
from workshop.probe.memory.host_objects import note_host_objects
from workshop.probe.memory.memory_notes import FIRST_STEPS, OldGraph, TensorRow
from workshop.probe.memory.process_memory import noting_own_pages
from workshop.probe.memory.storage_lives import UNSEEN, Life, StorageLives
from workshop.probe.memory.tensor_holders import TensorHolders, adopt_unseen

RECENT = 3
"""Steps, at most, whose graphs may be there because a variable still has the result, or a step has several
optimizers."""

JUST_OVER = 2
"""Steps, or calls in a validation, that may still have something in a variable that each of them assigns anew: the
present one and the one before."""


class HolderLook:
    """Knows which graphs and storages are of earlier steps or calls, and looks for their holders.

    Attributes:
        failed_frames: those in which an allocation has failed; empty if none has.
    """

    def __init__(self, events: EventFile, lives: StorageLives) -> None:
        self._events, self._lives = events, lives
        self._holders: TensorHolders | None = None
        self._step_ends, self._old_ends = list[int](), list[int]()  # the next nodes of graphs
        self._epoch_step = self._epoch_node = 0  # with which the epoch began
        self._calls_ns, self._call_nodes = list[int](), list[int]()  # with which each call of a validation began
        self.failed_frames: tuple[Any, ...] = ()

    def epoch_begins(self, step: int) -> None:
        """Note the step and the node of a graph with which an epoch begins."""
        self._epoch_step, self._epoch_node = step, _next_node()

    def step_ends(self) -> None:
        """Note the node of a graph with which a step ends."""
        self._step_ends.append(_next_node())

    def validation_begins(self) -> None:
        """Forget the calls of the validation before."""
        self._calls_ns, self._call_nodes = [], []

    def call_begins(self) -> None:
        """Note when a call of a validation begins, and with which node of a graph."""
        self._calls_ns.append(time_ns())
        self._call_nodes.append(_next_node())

    def take_in(self, is_last: bool) -> None:
        """Take in what there is and was not seen, as a segment begins."""
        with self._looking():
            adopt_unseen(self._lives)
        if is_last:
            self._old_ends = self._step_ends[:-RECENT]

    def look_at_backward(self) -> None:
        """Look for the holders as a backward pass of the last segment begins: about then is the peak."""
        with self._looking():
            self._holders = TensorHolders(self._lives, self._left_by_step, self._old_ends)

    def look_into_validation(self, calls: int) -> None:
        """Look for who holds what so many calls have left."""
        with self._looking():
            self._holders = TensorHolders(self._lives, self._left_by_call, self._call_nodes[1 : 1 - JUST_OVER])
            for each in self._holders.old_graphs:
                self._events.write(OldGraph, **each, steps=calls, validation=True)

    def of_validation(self, at_peak: list[TensorRow]) -> list[TensorRow]:
        """Return the rows of a validation, with their holders if these were looked for."""
        holders, self._holders = self._holders, None
        return holders.with_holders(at_peak) if holders else at_peak

    def of_step(
        self, at_peak: list[TensorRow], at_end: list[TensorRow], steps: int, failed: bool
    ) -> tuple[list[TensorRow], list[TensorRow]]:
        """Note who holds what there is after so many steps, and return rows with their holders."""
        of_peak, self._holders = self._holders, None
        with self._looking():
            of_end = TensorHolders(
                self._lives, self._left_by_step, self._old_ends, self.failed_frames, self._epoch_node
            )
            for each in of_end.old_graphs:
                self._events.write(OldGraph, **each, steps=steps, epoch_steps=steps - self._epoch_step)
            note_host_objects(steps, self._events)
            holders = of_end if failed or not of_peak else of_peak
            return holders.with_holders(at_peak), of_end.with_holders(at_end)
        return at_peak, at_end

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """Note how much memory becomes this process's own meanwhile."""
        try:
            with noting_own_pages(self._events):
                yield
        except Exception as error:  # objects of the script's may do anything when they are looked at
            self._events.lose(error)

    def _left_by_step(self, life: Life) -> int | None:
        """The step that has left a storage, if it is over for long enough that no variable of a loop has it."""
        if life.segment == 0:
            return UNSEEN if life.step >= FIRST_STEPS else None
        return life.step if FIRST_STEPS <= life.step <= self._lives.step - JUST_OVER else None

    def _left_by_call(self, life: Life) -> int | None:
        """The same of a call of the model in this validation."""
        call = bisect(self._calls_ns, life.born_ns)
        return call if life.segment == self._lives.segment and call <= len(self._calls_ns) - JUST_OVER else None


def _next_node() -> int:
    """The number that the next node of a graph gets; 0 in inference mode, where there are no graphs."""
    if torch.is_inference_mode_enabled():
        return 0
    with torch.enable_grad():
        return sequence_number((torch.zeros(1, requires_grad=True) * 1).grad_fn)
