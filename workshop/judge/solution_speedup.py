"""The speedup of the solution, which shows what this machine allows; it is measured beside a race, if it has to be."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

from workshop.judge.judged_script import JudgedScript
from workshop.judge.race import MIN_PAIRS
from workshop.judge.running_scripts import FIRST_EPOCHS, RunningScripts
from workshop.probe.messages import Proceed
from workshop.probe.phases import Phase

STEADY = 1.25
"""Times: a speedup is kept for the next check if the pairs that it was measured in differ by less than this factor."""


class SolutionSpeedup(ExitStack):
    """The solution in the first pairs of a race, where it trains after the original: a target is needed only then.

    What an earlier check has kept is taken if the machine is as quiet as it was then.

    Attributes:
        ratio: its speedup; None if there is no solution, or as long as it is not known.
    """

    def __init__(self, scripts: RunningScripts, phases: Sequence[Phase] | None) -> None:
        super().__init__()
        self.scripts, self.phases = scripts, phases
        self.ratio = scripts.solution_ratio if scripts.contest.solution else None
        self._ratios: list[float] = []
        self._running: JudgedScript | None = None

    def start(self) -> None:
        """Start the solution and let it warm up, if its speedup has to be measured."""
        scripts, solution = self.scripts, self.scripts.contest.solution
        if solution is None or scripts.knows_solution:
            return
        begin, self.ratio = time.monotonic(), None
        scripts.say("starting the solution, to see what it brings on this machine")
        self._running = self.enter_context(scripts.contest.script(solution))
        for _ in range(FIRST_EPOCHS):
            self._running.epoch()
        scripts.deadline_s += time.monotonic() - begin

    def pair(self, original_s: float, steps: int) -> None:
        """Let the solution train for so many steps, which the original took so long for; the last pair ends it."""
        if not self._running:
            return
        begin = time.monotonic()
        epoch = self._running.epoch(Proceed(steps=steps)).at_length(steps)
        self._ratios.append(original_s / epoch.seconds_in(self.phases))
        if len(self._ratios) == MIN_PAIRS:
            self.close()
            self._running, self.ratio = None, round(median(self._ratios), 3)
            if max(self._ratios) < STEADY * min(self._ratios) and not self.scripts.load.so_far().busy:
                self.scripts.solution_ratio = self.ratio
        self.scripts.deadline_s += time.monotonic() - begin
