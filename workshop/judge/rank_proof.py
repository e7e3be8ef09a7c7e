"""Whether the ranks of a run are one training, and the same as that of one process."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from workshop.judge.epochs import epochs
from workshop.judge.ledger import Ledger
from workshop.judge.proof import Evidence, differences

SAME = 1e-5
"""The largest difference between parameters on two ranks, relative to the largest of them."""


def why_alone(ledgers: Sequence[Ledger]) -> str:
    """Return why the ranks of a run are several trainings; empty if they know of each other."""
    known = {ledger.model.ranks for ledger in ledgers if ledger.model}
    if known == {len(ledgers)}:
        return ""
    return (
        f"the {len(ledgers)} ranks know nothing of each other: each trains a model of its own on all items; "
        "torch.distributed.init_process_group is missing"
    )


def differences_of_ranks(original: Ledger, ledgers: Sequence[Ledger], evidence: Evidence) -> list[str]:
    """Return what the ranks do otherwise than the original in one process; nothing if they do the same work.

    Args:
        original: the ledger of the original.
        ledgers: the ledger of each rank.
        evidence: what is known beside; a sampled step is recomputed from what all ranks have recorded of it.
    """
    if complaints := [*check_parameters(ledgers), *check_steps(ledgers)]:
        return complaints
    if any(result.apart > SAME for result in evidence.recomputed):
        return ["at a sampled step, the ranks have different parameters: they do not train one model"]
    return differences(original, Ledger.of_ranks(ledgers), evidence)


def check_steps(ledgers: Sequence[Ledger]) -> Iterator[str]:
    """All ranks take as many steps from one beginning of their DataLoader to the next."""
    steps = [len(epochs(ledger)[0]) for ledger in ledgers]
    if len(set(steps)) > 1:
        counts = ", ".join(f"rank {rank} takes {count}" for rank, count in enumerate(steps))
        yield f"the ranks do not step together: in an epoch, {counts} steps"


def check_parameters(ledgers: Sequence[Ledger]) -> Iterator[str]:
    """After each step, all ranks have the same parameters."""
    for number, steps in enumerate(zip(*(ledger.steps for ledger in ledgers), strict=False)):
        values = [np.array(step.parameter) for step in steps if step.parameter is not None]
        for one, other in pairwise(values):
            if not np.allclose(one, other, rtol=SAME, atol=SAME * float(np.abs(one).max())):
                yield (
                    f"after step {number + 1} the ranks have different parameters: they do not share their gradients; "
                    "DistributedDataParallel does it"
                )
                return
