"""Where scripts are judged: two of them side by side, what they did, and which is faster.

A part's `check.py` says which steps are taken on a `PartBench`, and in which order.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Self

from workshop.errors import WorkshopError
from workshop.harness.child import Child, Epoch, ScriptError
from workshop.harness.frames import trim
from workshop.harness.ledger import Ledger
from workshop.harness.neighbours import advice
from workshop.harness.proof import Evidence, check_recomputed, differences
from workshop.harness.race import MOST_PAIRS, Result, race
from workshop.harness.trial import Trial
from workshop.harness.verdict import Outcome, Speed, Verdict
from workshop.state import State

RACE_BUDGET_S = 120.0

CHECK_BUDGET_S = 50.0
"""For a part, from the start of the scripts to the end of the race. What follows takes a few seconds more."""

ROOM = 1.25
"""The solution must reach the target times this on a machine, or nothing can be decided there."""

_NO_LOSS = "no loss function of torch.nn was seen"
_NOT_REPRODUCIBLE = "the original's own do not come out the same from the same batch (dropout, clipping, a scheduler?)"

HIDDEN = 0.1
"""With less of the copy time under kernels, nothing overlaps: one of the four things that it takes is missing."""

Say = Callable[[str], None]
Check = Callable[[Sequence[Path]], Iterable[str]]


@dataclass(frozen=True)
class Clock:
    """What of an epoch is raced."""

    what: str
    """As a verdict says it, before the ratio."""
    seconds: Callable[[Epoch], float]


WHOLE = Clock("", lambda epoch: epoch.seconds)

PREPARATION = Clock(
    "until the model is called, ",
    lambda epoch: epoch.phases["data wait"] + epoch.phases["host-to-device copy"] + epoch.phases["other"],
)
"""What comes before the model: all that neither it nor the optimizer takes. A GPU is not waited for."""


class Bench:
    """Two scripts, run in turn.

    Args:
        subject: what the verdict is about.
        original: the script that does the right work.
        candidate: the one that is judged.
        target: how many times as fast as the original the candidate must be.
        say: told of the progress.
        name: what verdicts call the original.
        wasted_time_s: seconds that each read of a photo must have slept for; None where there is no such rule.
        trusted: the original is known to take steps that can be computed over again; else that is found out first.
    """

    def __init__(
        self,
        subject: str,
        original: Child,
        candidate: Child,
        target: float,
        say: Say,
        name: str,
        wasted_time_s: float | None = None,
        trusted: bool = False,
    ) -> None:
        self.trusted = trusted
        self.subject, self.target, self.say, self.name = subject, target, say, name
        self.original, self.candidate = original, candidate
        self.wasted_time_s = wasted_time_s
        self.lives = ExitStack()
        self.lives.enter_context(original)
        self.lives.enter_context(candidate)
        self.clock = WHOLE
        self.also: Check = lambda _: ()
        """A check of the part's own, of the steps that were recorded."""
        self.samples: list[Path] = []
        self.reproducible = True
        self.replaced_clocks: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lives.close()

    @property
    def label(self) -> str:
        """The original's name in a table."""
        return self.name

    @property
    def steps(self) -> int:
        """Optimizer steps in an epoch."""
        return self.original.epoch_steps or 0

    def start(self) -> None:
        """Start both scripts at once and let them warm up."""
        self.say(f"starting {self.name} and yours")
        self.original.start()
        if self.original.epoch_steps:
            self.candidate.start(self.some_step())
        first = self.original.epoch(self.some_step() if self.steps else None, keep_batches=True)
        if not first.finished:
            raise WorkshopError(f"{self.name} never steps an optimizer: nothing can be compared with it")
        self.candidate.epoch_steps = self.original.epoch_steps
        if not self.trusted:
            own = self.original.epoch(self.some_step(), keep_batches=True).sample
            result = self.original.recompute(own) if own else {"error": _NO_LOSS}
            self.reproducible = not list(check_recomputed(Evidence(recomputed=[result])))
        self.train(2)

    def train(self, epochs: int) -> None:
        """Let the candidate train, outside of any race; a step of each epoch is recorded to be computed over again."""
        for _ in range(epochs):
            epoch = self.candidate.epoch(self.some_step())
            self.replaced_clocks |= set(epoch.replaced_clocks)
            if epoch.sample:
                self.samples.append(epoch.sample)

    def some_step(self) -> int:
        """The script cannot know which step will be computed over again."""
        return random.randrange(self.steps)

    def ledger(self) -> Ledger:
        """What the candidate has done so far."""
        return Ledger.of(self.candidate.folder)

    def refusal(self) -> Verdict | None:
        """The verdict on a candidate that does other work; None for one that does the same."""
        recomputed = []
        if self.reproducible:
            recomputed = [self.original.recompute(sample) for sample in self.samples] or [{"error": _NO_LOSS}]
        evidence = Evidence(self.wasted_time_s, sorted(self.replaced_clocks), recomputed)
        complaints = differences(Ledger.of(self.original.folder), self.ledger(), evidence)
        complaints = [*self.also(self.samples), *complaints]
        return Verdict(self.subject, Outcome.OTHER_WORK, tuple(complaints)) if complaints else None

    def solution_ratio(self) -> float | None:
        """How fast a solution is known to be on this machine, if there is one."""
        return None

    def race_budget_s(self) -> float:
        """How long the race may take."""
        return RACE_BUDGET_S

    def race(self, *notes: str) -> Verdict:
        """Race the candidate against the original, and look once more whether it did the same work meanwhile.

        Args:
            notes: sentences for the verdict.
        """
        solution_ratio = self.solution_ratio()
        epochs: dict[Child, list[Epoch]] = {self.original: [], self.candidate: []}

        def run(child: Child) -> float:
            epochs[child].append(child.epoch(keep_batches=child is self.original))
            self.replaced_clocks |= set(epochs[child][-1].replaced_clocks)
            return self.clock.seconds(epochs[child][-1])

        self.say(f"racing, epoch by epoch; asked: {self.clock.what}{self.target:g} times as fast")
        result = race(
            lambda: run(self.original),
            lambda: run(self.candidate),
            self.target,
            self.race_budget_s(),
            lambda pair: self.say(f"  {pair.before_s:.2f} s against {pair.after_s:.2f} s: {pair.ratio:.2f} times"),
        )
        self.train(1)
        if refused := self.refusal():
            return refused
        speed = self._speed(result, epochs[self.original], epochs[self.candidate], solution_ratio)
        return self._judge(result, speed, notes)

    def _speed(self, result: Result, before: list[Epoch], after: list[Epoch], solution_ratio: float | None) -> Speed:
        ledger = Ledger.of(self.original.folder)
        items = sum(forward.shape[0] for step in ledger.steps[: self.steps] for forward in step.forwards)
        low, high = result.interval
        headroom = None
        if ledger.batches == self.steps:  # else an epoch here is a part of the script's, and was not kept whole
            headroom = items / self.original.epoch(from_memory=True).seconds
        return Speed(
            original=self.label,
            rate_before=items / median(map(self.clock.seconds, before)),
            rate_after=items / median(map(self.clock.seconds, after)),
            ratio=result.ratio,
            low=low,
            high=high,
            pairs=len(result.pairs),
            target=result.target,
            phases_before=_median_phases(before),
            phases_after=_median_phases(after),
            headroom_rate=headroom,
            solution_ratio=solution_ratio,
        )

    def _judge(self, result: Result, speed: Speed, notes: tuple[str, ...]) -> Verdict:
        says = f"{self.clock.what}{speed.ratio:.2f} times as fast as {self.name}, with the same work"
        asked = f"asked are {speed.target:g} times"
        solution = f"; the solution reaches {speed.solution_ratio:.1f} times here" if speed.solution_ratio else ""
        notes = notes if self.reproducible else (*notes, f"not compared: the steps themselves; {_NOT_REPRODUCIBLE}")
        if not result.faster and speed.solution_ratio and speed.solution_ratio < self.target * ROOM:
            because = f"this machine cannot show it: {asked}{solution}"
            return Verdict(self.subject, Outcome.UNDECIDED, (because, says, *notes), speed)
        if result.faster is None:
            end = "" if speed.pairs == MOST_PAIRS else ", and the time is over"
            because = f"after {speed.pairs} pairs of epochs neither side leads by three{end}: too noisy, or too close"
            return Verdict(self.subject, Outcome.UNDECIDED, (because, f"{says}; {asked}", *notes), speed, advice())
        if result.faster:
            return Verdict(self.subject, Outcome.DONE, (says, *notes), speed, _next(speed) + solution)
        return Verdict(self.subject, Outcome.NOT_YET, (f"{says}; {asked}", *notes), speed, _next(speed) + solution)


class PartBench(Bench):
    """The bench of a check: the scripts train on the stand-in, by a config of the bench's own."""

    def __init__(self, trial: Trial, state: State, machine: str, say: Say) -> None:
        self.trial, self.state, self.machine = trial, state, machine
        part, wasted_time_s = trial.part, None if trial.part.own_script else trial.config.wasted_time
        original, candidate = trial.child(part.original_script), trial.child(trial.candidate)
        name = "the untouched script" if part.original_script == part.untouched else part.original_script.name
        super().__init__(part.name, original, candidate, part.target, say, name, wasted_time_s, trusted=True)

    def start(self) -> None:
        """Start both scripts, and the clock of the check."""
        self.deadline = time.monotonic() + CHECK_BUDGET_S
        super().start()

    @property
    def label(self) -> str:
        """Short, for a table."""
        return self.name.removeprefix("the ").removesuffix(" script")

    def race_budget_s(self) -> float:
        """What is left of the check's time."""
        return self.deadline - time.monotonic()

    @property
    def items(self) -> int:
        """In an epoch."""
        return self.trial.config.max_items or 0

    def restart(self) -> None:
        """Start the candidate again, with another seed and the cache that it left."""
        self.say("starting your script again, on the cache that it left")
        self.candidate.command = self.trial.command(self.trial.candidate, self.candidate.folder, seed=1)
        self.candidate.start(self.some_step())

    def solution_ratio(self) -> float:
        """How fast the solution is on this machine: measured now, if that was never done."""
        known = self.state.get("calibration", self.machine, self.subject)
        if isinstance(known, int | float) and known >= self.target * ROOM:
            return float(known)  # a worse one may have been bad luck
        self.say("once on this machine: how fast is the solution here?")
        begin = time.monotonic()
        with self.trial.child(self.trial.part.solution) as solution:
            for _ in range(2):
                solution.epoch()
            pairs = [(self.original.epoch(keep_batches=True), solution.epoch()) for _ in range(3)]
        ratio = median(self.clock.seconds(before) / self.clock.seconds(after) for before, after in pairs)
        self.state.put(round(ratio, 3), "calibration", self.machine, self.subject)
        self.say(f"  {ratio:.1f} times as fast as {self.name}")
        self.deadline += time.monotonic() - begin
        return ratio

    def measure_copies(self, *notes: str) -> Verdict:
        """On CUDA: the share of copy time that is hidden under kernels, and the time of a step against the original."""

        def measure(child: Child) -> tuple[float, float]:
            child.epoch()
            copies = child.epoch(trace_copies=True).copies or {}
            hidden = copies["hidden"] / copies["copies"] if copies.get("copies") else 0.0
            return hidden, median(child.epoch().seconds for _ in range(5)) / self.steps * 1e3

        (hidden_before, before_ms), (hidden_after, after_ms) = measure(self.original), measure(self.candidate)
        name = self.trial.part.original
        hidden = f"{hidden_after:.0%} of the copy time is hidden under kernels, in {name} {hidden_before:.0%}"
        step = f"a step takes {after_ms:.1f} ms, in {name} {before_ms:.1f} ms: {before_ms / after_ms:.2f} times as fast"
        outcome = Outcome.DONE if hidden_after >= HIDDEN else Outcome.NOT_YET
        return Verdict(self.subject, outcome, (*notes, hidden, step))


def broken(subject: str, error: ScriptError) -> Verdict:
    """The verdict on a script that did not come to the end of an epoch."""
    output = trim(error.output)
    if error.exit_code == 0:
        return Verdict(subject, Outcome.OTHER_WORK, (f"the script does not train: {error}",), output=output)
    return Verdict(subject, Outcome.BROKEN, (f"the script broke: {error}",), output=output)


def _median_phases(epochs: list[Epoch]) -> dict[str, float]:
    return {phase: median(epoch.phases[phase] for epoch in epochs) for phase in epochs[0].phases}


def _next(speed: Speed) -> str:
    """Where the time goes now."""
    phase, seconds = max(speed.phases_after.items(), key=lambda item: item[1])
    share = f"{seconds / sum(speed.phases_after.values()):.0%} of an epoch"
    if phase == "data wait":
        return f"the loop still waits for data for {share}"
    if phase == "other":
        return f"{share} goes into neither loading nor model nor optimizer: profile main() line by line"
    return f"what is left is mostly computation: the largest phase is {phase}, {share}"
