"""Whether batches are copied to the device ahead of their use, and how much of that hides under the computation."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger
from workshop.judge.ledger_epochs import epochs, forwards_in
from workshop.judge.signatures import SAME_PICTURE, distance, unit, values_of
from workshop.probe.messages import Proceed
from workshop.traces.intervals import overlap, union_of


def copied_ahead(ledger: Ledger, steps: int) -> tuple[int, int, int]:
    """Count the batches that were copied before the model began with the batch before them.

    Returns:
        How many were, how many were copied more than once, and of how many batches.
    """
    ahead = again = batches = 0
    copies = [(copy, unit(values_of(copy.picture))[0]) for copy in ledger.copies if copy.picture]
    for epoch in epochs(ledger, steps):
        for present, following in pairwise(forwards_in(epoch)):
            first = unit(values_of(following.pictures))[0]
            copied = [
                copy
                for copy, picture in copies
                if copy.t < following.t
                and picture.shape == first.shape
                and distance(picture[None], first)[0] < SAME_PICTURE
            ]
            batches += 1
            # The last copy before the model begins is the one that is used. What is there already is not copied again.
            ahead += min((copy.t for copy in copied if copy.memory == copied[-1].memory), default=math.inf) < present.t
            again += len({copy.memory for copy in copied}) > 1
    return ahead, again, batches


def measured_copies(script: JudgedScript) -> tuple[float, float]:
    """On CUDA: return the share of a script's copy time that is hidden under kernels, and the time of a step in ms."""
    script.epoch()
    hidden = hidden_share(script.epoch(Proceed(trace_copies=True)).report.copy_trace or {})
    return hidden, median(script.epoch().seconds for _ in range(5)) / (script.epoch_steps or 1) * 1e3


def hidden_share(trace: Mapping[str, Sequence[tuple[int, int]]]) -> float:
    """Return the share of the time of "copies" that lies under "kernels"; of each, start and end are given."""
    copies, kernels = (union_of(trace.get(kind, ())) for kind in ("copies", "kernels"))
    return overlap(copies, kernels).length / copies.length if copies.length else 0.0
