"""The speedup of the solution, which shows what this machine allows; it is measured only if it has to be."""

import time
from collections.abc import Sequence
from statistics import median

from workshop.judge.race_verdict import ROOM
from workshop.judge.running_scripts import FIRST_EPOCHS, RunningScripts
from workshop.probe.phases import Phase
from workshop.terminal import Count


def solution_speedup(scripts: RunningScripts, phases: Sequence[Phase] | None, again: bool = False) -> float | None:
    """Return the solution's speedup in some phases, or None if there is no solution.

    It is measured if it is unknown or too low, or if `again`; the scripts keep it if it was steady.
    """
    contest, known = scripts.contest, scripts.solution_ratio
    if contest.solution is None:
        return None
    if known is not None and known >= contest.target * ROOM and not again:
        return known  # a lower speedup may have been bad luck
    begin = time.monotonic()
    scripts.say(f"measuring the solution on this machine{'' if again else ', once'}")
    ratios = []
    with contest.script(contest.solution) as solution:
        for _ in range(FIRST_EPOCHS):
            solution.epoch()
        for pair in range(1, 4):
            scripts.say(Count(f"measuring the solution on this machine: pair {pair} of 3"))
            original_s = scripts.epoch(scripts.original).seconds_in(phases)
            ratios.append(original_s / solution.epoch().seconds_in(phases))
    if max(ratios) < ROOM * min(ratios):  # otherwise it is measured again next time
        scripts.solution_ratio = round(median(ratios), 3)
    scripts.deadline_s += time.monotonic() - begin
    return median(ratios)
