"""Whether steps of a script come out the same when the original's own loop takes them."""

from collections.abc import Iterator, Sequence

import numpy as np

from workshop.judge.ledger import Ledger
from workshop.judge.verdict import UnseenWork
from workshop.probe.messages import Recomputation

LOSS_TOLERANCE = 1e-3
"""The largest relative error of a loss. Reordering float32 operations gives 1e-6, bfloat16 1e-2."""

ROUNDING = 20.0
"""Gradients may differ by this many times the rounding noise. On ResNet-18, a different order of operations or memory
layout, or a compiler, gives 3; bfloat16 gives 290 in a single layer, and 900 for gradients. On CUDA, where
convolutions may round to TensorFloat-32, the noise is that of its 10 bits, and hides bfloat16."""

GRADIENT_TOLERANCE, STEP_TOLERANCE, STATE_TOLERANCE, BUFFER_TOLERANCE = 0.1, 1e-2, 1e-4, 1e-3
"""The largest error of each kind of a recomputed step; bfloat16 makes a `state_error` of 2e-3."""


def check_recomputed(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the original's loop, from the same state and batch, gets the same loss, gradients and parameters.

    Whatever is not reproducible in the original's own steps is not checked.
    """
    left_out = not_reproducible(original.recomputed)
    for result in candidate.recomputed:
        if result.error is not None:
            yield UnseenWork(f"the original could not take a sampled step: {result.error}")
            return
        if wrong := [sentence for what, sentence in _wrong(result) if what not in left_out]:
            unseen = f"the original comes to something else in a sampled step, but {result.doubt}"
            yield UnseenWork(unseen) if result.doubt else wrong[0]
            return
    if "gradients" not in left_out:
        whole = [each.gradient_errors for each in candidate.recomputed if each.gradient_errors and not each.doubt]
        yield from _check_precision(whole)


def differs(result: Recomputation) -> bool:
    """Return whether the original comes to something else in a step that it could take."""
    return result.error is None and not result.doubt and any(_wrong(result))


def not_reproducible(recomputed: Sequence[Recomputation]) -> list[str]:
    """Return what differs when the original takes its own steps again: "loss", "gradients", ..."""
    if any(each.error is not None for each in recomputed):
        return ["steps themselves"]
    return sorted({what for each in recomputed for what, _ in _wrong(each)})


def _wrong(result: Recomputation) -> Iterator[tuple[str, str]]:
    """What is wrong with a step, and a sentence that says so."""
    loss, recorded = result.loss, result.recorded_loss
    if abs(recorded - loss) > LOSS_TOLERANCE * abs(loss):
        says = f"the loss of a sampled step is {recorded:.4f}; the original gets {loss:.4f} from the same batch"
        yield "loss", says
    if result.gradient_error > GRADIENT_TOLERANCE:
        says = "a sampled step has something else than the gradient that the original gets from its batch"
        yield "gradients", f"{says}: {result.gradient_error:.0%} of the gradient is not accounted for"
    if result.step_error > STEP_TOLERANCE:
        says = "in a sampled step, the optimizer turned the gradients into another update than the original's would"
        yield (
            "change of the parameters",
            f"{says}: {result.step_error:.0%} of the change of a tensor is not accounted for",
        )
    if result.state_error > STATE_TOLERANCE:
        says = "after a sampled step the optimizer's state is not what the original's would be"
        yield "optimizer's state", f"{says}: a tensor is off by {result.state_error:.1g} of its length"
    if result.buffer_error > BUFFER_TOLERANCE:
        says = "a sampled step began with, or left, other values in the model's buffers"
        yield "model's buffers", f"{says}, such as the running means of batch norm"


def _check_precision(errors: Sequence[Sequence[float]]) -> Iterator[str]:
    """Check that gradients differ by no more than rounding, given the error of each tensor in some steps.

    A value that rounds to the other side of a kink, as in ReLU, makes the gradients of all earlier layers jump in that
    step. So two steps must be off in nearly all tensors, or a tensor must be off in every step, of three or more.
    """
    off = sorted(float(np.quantile(of_step, 0.1)) for of_step in errors)[-2:]
    in_all_steps = np.min(errors, axis=0) if len(errors) >= 3 else np.zeros(1)
    if len(off) == 2 and off[0] > ROUNDING:
        where, times = "nearly all tensors", off[0]
    elif in_all_steps.max() > ROUNDING:
        where, times = f"{(in_all_steps > ROUNDING).sum()} tensors", in_all_steps.max()
    else:
        return
    yield (
        f"the gradients of {where} are off by {times:.0f} times the rounding noise, where another order of operations "
        "makes 3: something is computed in lower precision"
    )
