"""Part 9: the links are still drawn from Haar's measure on SU(3), but faster."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workshop.judge.bench import Bench
from workshop.judge.ledger import Ledger
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.signatures import values_of
from workshop.judge.verdict import Verdict
from workshop.parts.part9.haar import complaints
from workshop.probe.phases import Phase

PREPARATION = (Phase.DATA_WAIT, Phase.COPY, Phase.OTHER)
"""What comes before the model: everything that neither it nor the optimizer takes. A GPU is not waited for."""

MIN_DRAWS = 8
"""The dimension of SU(3): the number of real numbers that make a matrix."""

MIN_STEPS = 8
"""Steps, at least, for the numbers that are drawn between them to be counted."""

WORDS = 624
"""Words of 32 bits that the Mersenne Twister makes at a time."""


class LinkReason(ReasonKind):
    """What is said of the links beside their distribution: where they are, and whether each step draws its own."""

    OTHER_DEVICE = "the model runs on {0}, the untouched script's on {1}"
    FIELDS_AGAIN = "{again} of {fields} fields had come before: each step draws its own"
    DRAWN_BEFORE = "the links of many steps were drawn before the first one: draw those of each step in that step"
    DRAWS_UNSEEN = (
        "no number of torch's default random generator is drawn between steps: draw the links with it",
        UNSEEN,
    )
    TOO_FEW_DRAWS = "{steps} steps drew {words:,} random numbers, and their links need at least {needed:,}"
    WHOLE_STEP = "on a CPU the whole step is hardly faster: drawing is not what takes its time"


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
    return bench.race(LinkReason.WHOLE_STEP(), phases=PREPARATION)


def wrong_links(original: Ledger, candidate: Ledger, samples: Sequence[Path]) -> Iterator[Reason]:
    """Yield what is wrong with the links that entered the model: all of `samples`, one field of the other steps."""
    ours, theirs = original.forwards, candidate.forwards
    if not theirs:
        return  # a script that does not train is reported by the bench
    if theirs[0].device != ours[0].device:
        yield LinkReason.OTHER_DEVICE(theirs[0].device, ours[0].device)
    yield from complaints(*recorded_links(candidate, samples))
    if ours[0].device == "cpu":
        yield from too_few_draws(candidate)
    fields = np.concatenate([values_of(forward.pictures) for forward in theirs])
    if repeated := len(fields) - len(np.unique(fields, axis=0)):
        yield LinkReason.FIELDS_AGAIN(again=repeated, fields=len(fields))


def recorded_links(ledger: Ledger, samples: Sequence[Path]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the links of whole steps, and those of one field in each step of the first run, which the former lack."""
    records = [torch.load(sample, map_location="cpu", weights_only=True) for sample in samples]
    whole = [record["inputs"][0][1][0] for record in records]  # of the first call, the first tensor
    passes = [step.forwards[0] for step in ledger.steps if step.forwards and not step.run_index]
    noted = [(each.shape[1:], each.item) for each in passes if each.item]
    if not noted:
        return whole, []
    shape, first = noted[0]
    field = [torch.frombuffer(bytearray(item.values), dtype=torch.complex64) for of, item in noted if of == shape]
    rest = [torch.cat([each[: first.row], each[first.row + 1 :]]) for each in whole]
    return rest, [each.reshape(shape) for each in field]


def too_few_draws(ledger: Ledger) -> Iterator[Reason]:
    """Yield what is wrong if fewer numbers are drawn between steps on a CPU than their links have dimensions.

    Two steps may be drawn ahead. The later half of the steps is looked at by itself as well, because what is prepared
    at the beginning is not drawn then.
    """
    forwards = [forward for forward in ledger.forwards if forward.random_state]
    if len(forwards) < MIN_STEPS:
        return
    links = int(np.prod(forwards[0].shape[:-2]))
    states = [forward.random_state or b"" for forward in forwards]
    counts = [words_between(before, after, most=4 * MIN_DRAWS * links) for before, after in pairwise(states)]
    for part in counts, counts[len(counts) // 2 :]:
        asked = MIN_DRAWS * links * (len(part) - 2)
        if not any(counts):
            first = forwards[0]
            if first.random_seed is not None and words_drawn(first.random_seed, states[0], most=asked) >= asked:
                yield LinkReason.DRAWN_BEFORE()
            else:
                yield LinkReason.DRAWS_UNSEEN()
            return
        if sum(part) < asked:
            yield LinkReason.TOO_FEW_DRAWS(steps=len(part), words=sum(part), needed=asked)
            return


def words_drawn(seed: int, state: bytes, most: int) -> int:
    """Return the number of words that the generator gave out since it was seeded; `most` if they are more."""
    beginning = torch.Generator().manual_seed(seed).get_state()
    return words_between(beginning.numpy().tobytes(), state, most)


def words_between(before: bytes, after: bytes, most: int) -> int:
    """Return the number of 32-bit words that the generator gave out between two states; `most` if they are more."""
    (key, begin), (wanted, end) = _words(before), _words(after)
    generator = np.random.MT19937()
    generator.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": WORDS}}
    given = end - begin
    while given < most and (given < 0 or not np.array_equal(generator.state["state"]["key"], wanted)):
        generator.random_raw(WORDS)
        given += WORDS
    return min(given, most)


def _words(state: bytes) -> tuple[NDArray[np.uint32], int]:
    """The words that the generator has made, and how many of them it has given out."""
    left = int.from_bytes(state[8:12], "little")
    return np.frombuffer(state[24 : 24 + 8 * WORDS], "<u8").astype(np.uint32), WORDS + 1 - left
