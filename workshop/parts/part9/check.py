"""Part 9: the links are still drawn from Haar's measure on SU(3), and sooner."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from workshop.judge.bench import PREPARATION, Bench
from workshop.judge.ledger import Ledger
from workshop.judge.verdict import Verdict
from workshop.parts.part9.haar import complaints


def check(bench: Bench) -> Verdict:
    """Judge the distribution of the links, then the training, then the speed.

    On a CPU drawing links is not what takes the time, so it is raced by itself; on a GPU the whole step is.
    """
    bench.also = partial(links_are_haar, bench)
    bench.start()
    if refused := bench.refusal():
        return refused
    if Ledger.of(bench.original.folder).forwards[0].device != "cpu":
        return bench.race()
    bench.timed = PREPARATION
    return bench.race("on a CPU the whole step is hardly faster: drawing is not what takes its time")


def links_are_haar(bench: Bench, samples: Sequence[Path]) -> Iterator[str]:
    """Check what entered the model: at the steps that were recorded all of it, at every other step a few values."""
    ours, theirs = (Ledger.of(script.folder).forwards for script in (bench.original, bench.candidate))
    if not theirs:
        return  # that nothing was trained, is found out elsewhere
    if theirs[0].device != ours[0].device:
        yield f"the model runs on {theirs[0].device}, the untouched script's on {ours[0].device}"
    yield from complaints([torch.load(sample, map_location="cpu", weights_only=True)["batch"] for sample in samples])
    fields = np.concatenate([forward.values for forward in theirs])
    if repeated := len(fields) - len(np.unique(fields, axis=0)):
        yield f"{repeated} of {len(fields)} fields had come before: each step draws its own"
