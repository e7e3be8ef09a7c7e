"""Attention that is written by hand, tried as one operator of torch."""

from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import nn

from workshop.probe.attention import Attention, Products
from workshop.probe.cause import Moment, TriedCause
from workshop.probe.observations import WireFrame
from workshop.probe.trials.copies import copied_call, ensure_room
from workshop.probe.trials.trial_race import Pass, random_states_kept
from workshop.probe.trials.watcher import Watcher, watches_for

ATTENTION_BY_HAND = TriedCause(
    "attention-by-hand",
    "This softmax between two products of matrices is attention ({about}). One operator computes it, "
    "torch.nn.functional.scaled_dot_product_attention{setting}; nn.MultiheadAttention uses that with "
    "need_weights=False. The weights are not returned then.",
    moment=Moment.WATCHING,
)


@watches_for(ATTENTION_BY_HAND)
class AttentionByHand(Watcher):
    """Looks for attention in a pass of a copy of the model, and tries that of each line."""

    def before_model(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float) -> None:
        """Look for it once."""
        if self.tried:
            return
        self.tried.add(ATTENTION_BY_HAND.name)
        of_lines: dict[tuple[WireFrame, ...], list[Attention]] = defaultdict(list)
        with suppress(Exception):  # what cannot be copied fails in many ways: other trials tell
            for each in attention_in(module, inputs, options):
                of_lines[each.stack].append(each)
        for stack, found in of_lines.items():
            sizes = " x ".join(map(str, (*found[0].query.shape[:2], found[0].keys.shape[1])))
            about = f"{sizes} weights{f', {len(found)} times' * (len(found) > 1)}"
            self.race(ATTENTION_BY_HAND, partial(_passes, found), about, stack, times)


def attention_in(module: nn.Module, inputs: Any, options: Any) -> list[Attention]:
    """Return what enters attention that is computed by hand in a call of a model; it is called as a copy."""
    copied, given, named = copied_call(module, inputs, options)
    with random_states_kept(), torch.no_grad(), Products(copied) as products:
        copied(*given, **named)
    return products.found


def _passes(found: list[Attention]) -> Generator[Pass, None, str]:
    """Forward and backward with the tensors that enter attention.

    Returns:
        What the operator is to be given, in words.
    """
    ensure_room((tensor for each in found for tensor in each.entering), 4)
    leaves = [[_leaf(tensor) for tensor in each.entering] for each in found]

    def run(compute: Any) -> torch.Tensor:
        made = [compute(each, *tensors) for each, tensors in zip(found, leaves, strict=True)]
        torch.autograd.grad(sum(each.sum() for each in made), [each for tensors in leaves for each in tensors])
        return torch.cat([each.detach().flatten().float() for each in made])

    yield lambda: run(Attention.by_hand)
    yield lambda: run(Attention.at_once)
    if found[0].is_causal:
        return ", with is_causal=True"
    return "" if found[0].mask is None else ", with the mask as attn_mask"


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
