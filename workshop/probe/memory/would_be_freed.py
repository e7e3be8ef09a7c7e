"""By how much the peak of a recorded segment would be lower without what need not be there."""

from collections.abc import Collection

from workshop.probe.memory.memory_notes import LowerPeak, SegmentName, TensorKind
from workshop.probe.memory.segment_table import SegmentTable
from workshop.probe.memory.storage_lives import Life, StorageLives
from workshop.probe.memory.unneeded import Unneeded

MIN_BYTES = 1 << 16
"""Bytes, at least, by which the peak must be lower."""

OF_A_STEP = (TensorKind.ACTIVATIONS, TensorKind.OTHERS)
"""Batches are not among them: a loop over a DataLoader has the one before until the next is there."""


def would_be_freed(
    name: SegmentName, table: SegmentTable, lives: StorageLives, unneeded: Unneeded, with_graph: Collection[int]
) -> list[LowerPeak]:
    """Return by how many bytes the peak of each device would be lower, by the causes of which this is known.

    Args:
        name: of the segment, which has just ended.
        table: its tensors.
        lives: those that there are now.
        unneeded: what its backward passes have not needed.
        with_graph: the numbers of the segments that are validations and were computed with gradients.
    """
    present, found = lives.segment, list[LowerPeak]()

    def without(cause: str, device: str, some: list[Life], stack: int) -> None:
        found.append(LowerPeak(cause, device, table.saved_without(device, some), stack))

    def stack_of(some: list[Life]) -> int:
        return max(some, key=lambda each: each.size).stack if some else -1

    for device in table.peaks:
        for cause, some, stack in unneeded.of_device(device):
            without(cause, device, some, stack)
        if name is SegmentName.TRAINING:
            earlier = table.select(device, lambda each: each.kind is TensorKind.GRADIENTS and each.segment != present)
            without("gradients-kept", device, earlier, -1)
            of_last = table.select(device, lambda each: _is_of_last_step(each, lives))
            without("kept-into-next-step", device, of_last, stack_of(of_last))
        # What graphs of this validation have made, or of an earlier one, if it is still there; not their inputs.
        made = table.select(device, lambda each: each.kind is TensorKind.ACTIVATIONS and each.segment in with_graph)
        without("validation-graph", device, made, stack_of(made))
    return [each for each in found if each.bytes > MIN_BYTES]


def _is_of_last_step(life: Life, lives: StorageLives) -> bool:
    """Whether the step before has made it, and this one has let it go: what stays longer is no part of this."""
    is_of_last = life.segment != lives.segment and 0 <= life.step == lives.step - 1
    return life.kind in OF_A_STEP and is_of_last and life.died_ns > 0
