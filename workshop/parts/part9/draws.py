"""Counts the random numbers that a training draws for each step, from the states of torch's generator on the CPU."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from workshop.judge.ledger import Ledger
from workshop.judge.verdict import UnseenWork

MIN_DRAWS = 8
"""The dimension of SU(3): so many real numbers make a matrix."""

MIN_STEPS = 8
"""Of fewer steps, nothing is said."""

WORDS = 624
"""The Mersenne Twister makes so many words of 32 bits at a time."""


def too_few_draws(ledger: Ledger) -> Iterator[str]:
    """Yield what is wrong if fewer numbers are drawn between steps than the links of the steps have dimensions.

    Two steps may be drawn ahead. The later half of the steps is looked at by itself as well, because what is prepared
    at the beginning is not drawn then.

    Args:
        ledger: what a script did on a CPU.
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
                yield "the links of many steps were drawn before the first one: draw those of each step in that step"
                return
            yield UnseenWork(
                "no number of torch's default random generator is drawn between steps: draw the links with it"
            )
            return
        if sum(part) < asked:
            yield f"{len(part)} steps drew {sum(part):,} random numbers, and their links need at least {asked:,}"
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
