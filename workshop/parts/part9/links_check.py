"""Part 9: the links are still drawn from Haar's measure on SU(3), but faster."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from workshop.judge.bench import PREPARATION, Bench
from workshop.judge.ledger import Ledger
from workshop.judge.signatures import values_of
from workshop.judge.verdict import Verdict
from workshop.parts.part9.draws import too_few_draws
from workshop.parts.part9.haar import complaints


def check(bench: Bench) -> Verdict:
    """Judge the distribution of the links, then the training, then the speed.

    On a CPU drawing links is not what takes the time, so it is raced by itself; on a GPU the whole step is.
    """
    bench.also = wrong_links
    bench.start()
    if refused := bench.refusal():
        return refused
    if bench.original_ledger().forwards[0].device != "cpu":
        return bench.race()
    bench.phases = PREPARATION
    return bench.race("on a CPU the whole step is hardly faster: drawing is not what takes its time")


def wrong_links(original: Ledger, candidate: Ledger, samples: Sequence[Path]) -> Iterator[str]:
    """Yield what is wrong with the links that entered the model: all of `samples`, a few values of other steps."""
    ours, theirs = original.forwards, candidate.forwards
    if not theirs:
        return  # a script that does not train is reported by the bench
    if theirs[0].device != ours[0].device:
        yield f"the model runs on {theirs[0].device}, the untouched script's on {ours[0].device}"
    yield from complaints([torch.load(sample, map_location="cpu", weights_only=True)["batch"] for sample in samples])
    if ours[0].device == "cpu":
        yield from too_few_draws(candidate)
    fields = np.concatenate([values_of(forward.pictures) for forward in theirs])
    if repeated := len(fields) - len(np.unique(fields, axis=0)):
        yield f"{repeated} of {len(fields)} fields had come before: each step draws its own"
