"""By how much the peak of a recorded segment would be lower without what need not be there."""

from collections.abc import Collection

from workshop.probe.memory.memory_notes import SegmentName, TensorKind
from workshop.probe.memory.segment_table import SegmentTable
from workshop.probe.memory.storage_lives import Life, StorageLives
from workshop.probe.memory.unneeded import Unneeded

SMALLEST = 1 << 16
"""What would save less than this at the peak is not told."""

OF_A_STEP = (TensorKind.ACTIVATIONS, TensorKind.OTHERS)
"""Batches are not among them: a loop over a DataLoader has the one before until the next is there."""


def would_be_freed(
    name: SegmentName, table: SegmentTable, lives: StorageLives, unneeded: Unneeded, with_graph: Collection[int]
) -> list[tuple[str, int, int]]:
    """Return by how many bytes the peak of each device would be lower, by the causes of which this is known.

    Args:
        name: of the segment, which has just ended.
        table: its tensors.
        lives: those that there are now.
        unneeded: what its backward passes have not needed.
        with_graph: the numbers of the segments that are validations and were computed with gradients.

    Returns:
        The cause and the device, the bytes, and the stack of the largest of these tensors, or -1.
    """
    now, found = lives.segment, []

    def without(cause: str, device: str, some: list[Life], named: bool = True) -> None:
        stack = max(some, key=lambda each: each.size).stack if some and named else -1
        found.append((f"{cause} {device}", table.saved_without(device, some), stack))

    for device in table.peaks:
        for cause, some, stack in unneeded.of_device(device):
            found.append((f"{cause} {device}", table.saved_without(device, some), stack))
        if name is SegmentName.TRAINING:
            earlier = table.select(device, lambda each: each.kind is TensorKind.GRADIENTS and each.segment != now)
            without("gradients-kept", device, earlier, named=False)
            without("kept-into-next-step", device, table.select(device, lambda each: _is_of_last_step(each, lives)))
        # What graphs of this validation have made, or of an earlier one, if it is still there; not their inputs.
        made = table.select(device, lambda each: each.kind is TensorKind.ACTIVATIONS and each.segment in with_graph)
        without("validation-graph", device, made)
    return [each for each in found if each[1] > SMALLEST]


def _is_of_last_step(life: Life, lives: StorageLives) -> bool:
    """Whether the step before has made it, and this one has let it go: what stays longer is no part of this."""
    is_of_last = life.segment != lives.segment and 0 <= life.step == lives.step - 1
    return life.kind in OF_A_STEP and is_of_last and life.died_ns > 0
