"""Compares the ranks of a run: which one the others wait for, in which phase and line."""

from statistics import median

import numpy as np

from workshop.diagnosis.findings import Finding, finding, gain_of
from workshop.diagnosis.loading import Loading
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.user_lines import HotLine, Path, hottest
from workshop.probe.cause import Cause, CausePlace
from workshop.probe.phases import Phase

SLOW_RANK = Cause(
    "slow-rank",
    "Rank {rank} begins its backward pass {lost_ms:.0f} ms later, and {who} for it there: it needs more time for "
    "{phase}.",
    CausePlace.FIRST,
)

Ranks = dict[int, Measurement]


def waits_ms(ranks: Ranks) -> dict[int, float]:
    """Return the milliseconds per step that each rank waits for the last one: 0 if each trains by itself.

    The ranks meet in the backward pass, where gradients are averaged: none leaves it before the last one has entered.
    All share the machine's clock.
    """
    first = max(each.steps.first_step for each in ranks.values())
    count = min(each.steps.first_step + each.steps.count for each in ranks.values()) - first
    if count < 1 or not all(each.circumstances.distributed for each in ranks.values()):
        return dict.fromkeys(ranks, 0.0)
    arrived = np.array([each.steps.backward_s[first - each.steps.first_step :][:count] for each in ranks.values()])
    waited = (arrived.max(axis=0) - arrived).mean(axis=1)
    return dict(zip(ranks, (waited * 1e3).tolist(), strict=True))


def slow_rank(ranks: Ranks, waits: dict[int, float]) -> tuple[int, list[Finding]]:
    """Return the rank that the others wait for longest, by `waits_ms`, and the findings about it."""
    slow = min(waits, key=waits.__getitem__)
    others = {rank: each for rank, each in ranks.items() if rank != slow}
    if not any(waits.values()):
        return slow, []
    lost_ms = median(waits[rank] for rank in others) - waits[slow]
    steps = ranks[slow].steps
    more_ms = {
        phase: ranks[slow].table.ms_in(phase) - median(each.table.ms_in(phase) for each in others.values())
        for phase in Phase
        if phase != Phase.BACKWARD  # where the others wait
    }
    phase = max(more_ms, key=more_ms.__getitem__)
    line = _line_of_difference(ranks[slow], list(others.values()), phase)
    who = "the other rank waits" if len(others) == 1 else f"the other {len(others)} ranks wait"
    return slow, [
        finding(
            SLOW_RANK,
            SLOW_RANK.words.format(rank=slow, lost_ms=lost_ms, who=who, phase=phase),
            gain=gain_of(steps.ms_a_step, steps.ms_a_step - lost_ms),
            phase=phase,
            path=line.path if line else (),
            process=f"rank {slow}",
            ms_a_step=lost_ms,
            share=lost_ms / steps.ms_a_step,
        )
    ]


def _line_of_difference(slow: Measurement, others: list[Measurement], phase: Phase) -> HotLine | None:
    """The line that takes more time per step in the slow rank than in the others."""
    more = [(path, weight / slow.steps.count) for path, weight in _paths(slow, phase)]
    for each in others:
        more += [(path, -weight / each.steps.count / len(others)) for path, weight in _paths(each, phase)]
    return hottest(more)


def _paths(rank: Measurement, phase: Phase) -> list[tuple[Path, float]]:
    """The lines of user code of a phase with their weights; for data wait, the lines that load."""
    loading = Loading(rank)
    if phase == Phase.DATA_WAIT and loading.loader:
        return loading.user_paths(lambda _: True)
    return rank.user_paths(rank.steps, phase)
