"""The bench where scripts are judged: two of them run in turn, what they do is compared, and which is faster.

The check of a part says which steps are taken on a bench, and in which order.
"""

import math
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Self

from workshop.errors import WorkshopError
from workshop.judge.busy_processes import advice
from workshop.judge.contest import Contest
from workshop.judge.judged_script import Epoch, JudgedScript
from workshop.judge.ledger import Ledger
from workshop.judge.picture_proof import check_stock
from workshop.judge.proof import NO_LOSS, Evidence, differences, not_reproducible
from workshop.judge.race import LEAD, MAX_PAIRS, SPREAD, Pair, Result, race
from workshop.judge.verdict import Outcome, Speed, Unseen, Verdict, other_work
from workshop.probe.messages import Proceed, Recomputation, Repetition
from workshop.probe.phases import Phase
from workshop.processes.script import Say
from workshop.traces.intervals import overlap, union_of

LONG_BUDGET_S = 120.0
"""The time for a race of which it is not said when it must be over."""

ROOM = 1.25
"""The solution must reach the target times this on a machine, or nothing can be decided there."""

BEATEN = 1.2
"""A script that is this many times as fast as the solution says that the solution's speed was measured badly."""

MIN_HIDDEN = 0.1
"""With a smaller share of the copy time under kernels, nothing overlaps: a part of the prefetcher is missing."""

SURE = 1.5
"""Of two scripts that nobody knows, a gain that is not so many times what is asked must show in two runs of both."""

MIN_PAIR_S, MAX_AT_A_TIME = 2.0, 5
"""In a pair, each of two scripts that nobody knows trains for so many seconds, but for so many epochs at most."""

_NOT_REPRODUCIBLE = "the original's own do not come out the same when they are computed over again"

SampleCheck = Callable[[Sequence[Path]], Iterable[str]]
"""Looks at the files of recorded steps, and returns what is wrong with them."""


@dataclass(frozen=True)
class Timed:
    """The part of an epoch that is raced."""

    what: str
    """Its name, as a verdict says it before the ratio."""
    phases: tuple[Phase, ...] | None = None
    """By the script's clock; None for a whole epoch, by the judge's."""

    def seconds(self, epoch: Epoch) -> float:
        """Return the seconds that it took in an epoch."""
        return epoch.seconds if self.phases is None else sum(epoch.phases[phase] for phase in self.phases)

    def median_phases(self, epochs: list[Epoch]) -> dict[str, float]:
        """Return the median seconds of each of its phases."""
        return {phase: median(epoch.phases[phase] for epoch in epochs) for phase in self.phases or Phase}


WHOLE = Timed("")

PREPARATION = Timed("until the model is called, ", (Phase.DATA_WAIT, Phase.COPY, Phase.OTHER))
"""What comes before the model: everything that neither it nor the optimizer takes. A GPU is not waited for."""


class Bench:
    """Two scripts, run in turn.

    Args:
        contest: which scripts, and how they are run.
        say: told of the progress.

    Attributes:
        timed: the part of an epoch that is raced.
        also: a further check of the steps that were recorded.
    """

    def __init__(self, contest: Contest, say: Say) -> None:
        self.contest, self.say = contest, say
        self.scripts = ExitStack()
        self.original = self.scripts.enter_context(contest.script(contest.original))
        self.candidate = self.scripts.enter_context(contest.script(contest.candidate))
        self.original.say = self.candidate.say = say
        self.timed = WHOLE
        self.also: SampleCheck = lambda _: ()
        self.samples: list[Path] = []
        self.recomputed: list[Recomputation] = []  # the samples, as far as they have been looked at
        self.own: list[Recomputation] = []  # samples of the original
        self.repeated: dict[Path, Repetition] = {}  # recorded random transforms
        self.own_repeated: dict[Path, Repetition] = {}  # those of the original
        self.restarts_workers = False  # whether the candidate does, in each epoch
        self.files: list[str] = []  # that the candidate leaves behind, and the original does not
        self.replaced_clocks: set[str] = set()
        self.steps_taken: list[int] = []  # in each epoch of the candidate
        self.deadline_s: float | None = None
        self.raced_s: tuple[float, float] | None = None  # the beginning and the end of the race

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.scripts.close()

    @property
    def subject(self) -> str:
        """What the verdict is about."""
        return self.contest.subject

    @property
    def steps(self) -> int:
        """The number of optimizer steps in an epoch."""
        return self.original.epoch_steps or 0

    def start(self) -> None:
        """Start both scripts at once and let them warm up."""
        name = self.contest.original_name
        if self.contest.budget_s:
            self.deadline_s = time.monotonic() + self.contest.budget_s
        self.say(f"starting {self.contest.candidate.name} and {name}")
        self.original.begin()
        if self.steps:
            self.candidate.begin(self.some_step())
        if self.steps and self.contest.recomputable:
            self.train(1)  # before the original is waited for: a script that crashes at once is found out at once
        if not self.original.epoch(Proceed(keep_batches=True)).report.finished:
            raise WorkshopError(f"{name} has no step that could be compared: {self.original.seen()}")
        self.candidate.epoch_steps = self.original.epoch_steps
        self.say(f"watching what {self.contest.candidate.name} does, for two epochs")
        self.train(2 - len(self.steps_taken))

    def train(self, epochs: int) -> None:
        """Let the candidate train, outside of any race; a step of each epoch is recorded, to be recomputed.

        So does the original, if it is not known whether its steps come out the same.
        """
        for _ in range(epochs):
            if not self.contest.recomputable:
                own = self.original.epoch(Proceed(self.some_step(), keep_batches=True)).sample
                self.own.append(self.original.recompute(own) if own else NO_LOSS)
            epoch = self.candidate.epoch(Proceed(self.some_step()))
            self.replaced_clocks |= set(epoch.report.replaced_clocks)
            self.steps_taken.append(epoch.report.steps)
            if epoch.sample:
                self.samples.append(epoch.sample)

    def align(self) -> None:
        """Let both scripts have trained for as many epochs, where these may be parts of what the scripts take for one.

        What it does between two epochs, such as a validation, is then in the same pairs for both.
        """
        if self.contest.recomputable:
            return
        behind, ahead = sorted((self.original, self.candidate), key=lambda script: script.epochs_in_run)
        for _ in range(ahead.epochs_in_run - behind.epochs_in_run):
            behind.epoch(Proceed(keep_batches=behind is self.original))

    def epochs_at_a_time(self) -> int:
        """Return how many epochs each script trains in a pair: short ones come out too differently by themselves.

        What the one has just done leaves the caches to it, so both train as many once, untimed.
        """
        seconds = self.timed.seconds(self.original.epoch(Proceed(keep_batches=True)))
        count = min(MAX_AT_A_TIME, math.ceil(MIN_PAIR_S / max(seconds, 1e-3)))
        for script in (self.original, self.candidate):
            for _ in range(count):
                script.epoch(Proceed(keep_batches=script is self.original))
        self.align()
        return count

    def run_both_again(self) -> None:
        """Start both scripts anew: of a small difference, much is the luck of a process with its memory."""
        self.say("starting both again, to see whether it holds")
        for script in (self.original, self.candidate):
            script.stop()
            for _ in range(2):
                script.epoch(Proceed(keep_batches=script is self.original))

    def restart(self) -> None:
        """Start the candidate again, with another seed and what it has left in its folder."""
        self.say("starting your script again, on the cache that it left")
        self.candidate.stop()
        again = self.contest.run(self.contest.candidate, self.candidate.folder, seed=1)
        again.epoch_steps = self.candidate.epoch_steps
        self.candidate = self.scripts.enter_context(again)
        self.candidate.begin(self.some_step())

    def some_step(self) -> int:
        """Choose a step: the script cannot know which one will be recomputed."""
        return random.randrange(self.steps)

    def ledger(self) -> Ledger:
        """Return what the candidate has done so far."""
        return Ledger.of(self.candidate.folder)

    def evidence(self) -> Evidence:
        """Return what is known beside the ledgers; the original recomputes what it has not recomputed yet."""
        recomputed: list[Recomputation] = []
        if not any(own.error for own in self.own):
            self.recomputed += [self.original.recompute(sample) for sample in self.samples[len(self.recomputed) :]]
            recomputed = self.recomputed or [NO_LOSS]
        for script, repeated in (self.original, self.own_repeated), (self.candidate, self.repeated):
            repeated |= self.original.repeat(set(script.recorded_transforms()) - repeated.keys())
        return Evidence(
            self.contest.wasted_time_s,
            sorted(self.replaced_clocks),
            recomputed,
            self.own,
            list(self.repeated.values()),
            list(self.own_repeated.values()),
            self.contest.items,
        )

    def refusal(self) -> Verdict | None:
        """Return the verdict on other work, or on work that cannot be seen; None for the same work."""
        evidence = self.evidence()
        original, candidate = Ledger.of(self.original.folder), self.ledger()
        self.files = sorted(set(candidate.files) - set(original.files))
        self.restarts_workers = candidate.restarts_workers
        complaints = [*self.also(self.samples), *differences(original, candidate, evidence)]
        if not complaints and (fewest := min(self.steps_taken, default=self.steps)) < self.steps:
            complaints = [f"an epoch has {fewest} steps, the original's {self.steps}"]
        if not complaints and self.raced_s:
            complaints = [*check_stock(original, candidate, self.raced_s)]
        if not self.contest.recomputable and not all(isinstance(each, Unseen) for each in complaints):
            complaints = self._of_candidate_alone(complaints, original, len(candidate.steps) // self.steps)
        return other_work(self.subject, complaints)

    def _of_candidate_alone(self, complaints: Sequence[str], original: Ledger, epochs: int) -> list[str]:
        """Mark what the original is refused for as well, when it runs once more: that proves nothing.

        Args:
            complaints: what was found against the candidate.
            original: what the original has done.
            epochs: how many epochs it trains; as many as the candidate has.
        """
        self.say(f"running {self.contest.original_name} once more, to see whether it does so, too")
        with self.contest.script(self.contest.original) as again:
            again.epoch_steps = self.original.epoch_steps
            for _ in range(epochs):
                again.epoch()
            found = differences(original, Ledger.of(again.folder), Evidence(items=self.contest.items))
        kinds = set(map(_without_figures, found))
        return [
            Unseen(f"{each}; but {self.contest.original_name}, run once more, does so, too")
            if _without_figures(each) in kinds
            else each
            for each in complaints
        ]

    def files_left(self) -> str:
        """Return a sentence that names the files that the candidate leaves behind; empty if there are none."""
        if not self.files:
            return ""
        more = f" and {len(self.files) - 1} more files" if len(self.files) > 1 else ""
        return f"what it writes stays behind: {self.files[0]}{more}; what is kept belongs under the config's cache_dir"

    def race(self, *notes: str) -> Verdict:
        """Race the candidate against the original, and look once more whether it did the same work meanwhile.

        Args:
            notes: sentences for the verdict.
        """
        solution_ratio = self.solution_ratio()
        epochs: dict[JudgedScript, list[Epoch]] = {self.original: [], self.candidate: []}

        def run(script: JudgedScript) -> float:
            ran = [script.epoch(Proceed(keep_batches=script is self.original)) for _ in range(at_a_time)]
            epochs[script] += ran
            self.replaced_clocks |= {name for epoch in ran for name in epoch.report.replaced_clocks}
            return sum(map(self.timed.seconds, ran))

        self.align()
        at_a_time = 1 if self.contest.recomputable else self.epochs_at_a_time()
        unraced = random.randrange(1, LEAD)

        def on_pair(pairs: Sequence[Pair]) -> None:
            """Show the latest pair; once, let the candidate train an epoch more, of which a step is recorded."""
            self.say(_how_far(pairs, self.contest.target))
            if len(pairs) == unraced:
                self.train(1)
                self.align()

        begin = time.monotonic()
        self.say(f"racing, epoch by epoch: {self.timed.what}{self.contest.target:g} times as fast is asked")
        budget_s = self.deadline_s - time.monotonic() if self.deadline_s else LONG_BUDGET_S
        runners = (lambda: run(self.original), lambda: run(self.candidate))
        result = race(*runners, self.contest.target, budget_s, on_pair)
        if result.faster and not self.contest.recomputable and result.ratio < SURE * self.contest.target:
            self.run_both_again()
            again = race(
                *runners, self.contest.target, budget_s, lambda pairs: self.say(_how_far(pairs, result.target))
            )
            result = result if again.faster else replace(result, undone=again.ratio)
        self.raced_s = begin, time.monotonic()
        self.train(1)
        if refused := self.refusal():
            return refused
        if solution_ratio and result.ratio > BEATEN * solution_ratio:  # that was measured on a busy machine
            solution_ratio = self.solution_ratio(again=True)
        speed = self._speed(result, epochs[self.original], epochs[self.candidate], solution_ratio)
        return self._judge(result, speed, notes)

    def judge(self) -> Verdict:
        """Judge what every part asks for: the same work, in less time."""
        self.start()
        return self.refusal() or self.race()

    def solution_ratio(self, again: bool = False) -> float | None:
        """Return how fast the solution is on this machine; measure it, if that was never done, or again."""
        contest = self.contest
        if contest.solution is None:
            return None
        known = contest.known_solution_ratio
        if known is not None and known >= contest.target * ROOM and not again:
            return known  # a worse one may have been bad luck
        measuring = f"measuring the solution on this machine{'' if again else ', once'}"
        self.say(measuring)
        begin = time.monotonic()
        pairs = []
        with contest.script(contest.solution) as solution:
            for _ in range(2):
                solution.epoch()
            for number in range(1, 4):
                self.say(f"{measuring}: pair {number} of 3")
                pairs.append((self.original.epoch(Proceed(keep_batches=True)), solution.epoch()))
        ratios = [self.timed.seconds(before) / self.timed.seconds(after) for before, after in pairs]
        ratio = median(ratios)
        if max(ratios) < ROOM * min(ratios):  # else it is measured anew the next time
            contest.keep_solution_ratio(round(ratio, 3))
        if self.deadline_s:
            self.deadline_s += time.monotonic() - begin
        return ratio

    def measure_copies(self, *notes: str) -> Verdict:
        """On CUDA: the share of copy time that is hidden under kernels, and the time of a step against the original."""
        (hidden_before, before_ms), (hidden_after, after_ms) = map(copies, (self.original, self.candidate))
        name = self.contest.original.name
        hidden = f"{hidden_after:.0%} of the copy time is hidden under kernels, in {name} {hidden_before:.0%}"
        step = f"a step takes {after_ms:.1f} ms, in {name} {before_ms:.1f} ms: {before_ms / after_ms:.2f} times as fast"
        outcome = Outcome.DONE if hidden_after >= MIN_HIDDEN else Outcome.NOT_YET
        return Verdict(self.subject, outcome, (*notes, hidden, step))

    def _speed(self, result: Result, before: list[Epoch], after: list[Epoch], solution_ratio: float | None) -> Speed:
        steps = Ledger.of(self.original.folder).steps[: self.steps]
        items = sum(forward.shape[0] for step in steps for forward in step.forwards)
        low, high = result.interval
        return Speed(
            original=self.contest.original_name.removeprefix("the "),
            candidate=self.contest.candidate.name,
            rate_before=items / median(map(self.timed.seconds, before)),
            rate_after=items / median(map(self.timed.seconds, after)),
            ratio=result.ratio,
            low=low,
            high=high,
            pairs=len(result.pairs),
            target=result.target,
            phases_before=self.timed.median_phases(before),
            phases_after=self.timed.median_phases(after),
            headroom_rate=self._headroom_rate(),
            solution_ratio=solution_ratio,
        )

    def _headroom_rate(self) -> float | None:
        """Samples per second of the original with batches from memory; None if no batch is left of an earlier run."""
        epoch = self.original.epoch(Proceed(from_memory=True))
        if not epoch.report.from_memory:
            return None
        steps = Ledger.of(self.original.folder).steps[-self.steps :]
        return sum(forward.shape[0] for step in steps for forward in step.forwards) / epoch.seconds

    def _judge(self, result: Result, speed: Speed, notes: tuple[str, ...]) -> Verdict:
        left_out = not_reproducible(self.own)
        same = "and nothing that could be compared is otherwise" if left_out else "with the same work"
        says = f"{self.timed.what}{speed.ratio:.2f} times as fast as {self.contest.original_name}, {same}"
        asked = f"{speed.target:g} times is asked"
        if left_out:
            notes = (*notes, f"not compared: the {' and '.join(left_out)}; {_NOT_REPRODUCIBLE}")
        if speed.high > SPREAD * speed.low:
            because = f"too noisy: the pairs of epochs were {_range(result)} times as fast; {asked}"
            return Verdict(self.subject, Outcome.UNDECIDED, (because, *notes), next=advice())
        solution = f"the solution reaches {speed.solution_ratio or 0.0:.1f} times here"
        if not result.faster and speed.solution_ratio and speed.solution_ratio < speed.target * ROOM:
            because = f"this machine cannot show it now: {asked}, and {solution}"
            return Verdict(self.subject, Outcome.UNDECIDED, (because, says, *notes), speed, advice())
        if speed.solution_ratio:
            notes = (solution, *notes)
        if result.faster is False and speed.high >= speed.target:
            because = f"the pairs of epochs differ so much that {speed.target:g} times may be true as well"
            return Verdict(self.subject, Outcome.UNDECIDED, (because, f"{says}; {asked}", *notes), speed, advice())
        if result.undone is not None:
            because = f"{result.ratio:.2f} times as fast in one run of both, and {result.undone:.2f} times in another"
            return Verdict(self.subject, Outcome.UNDECIDED, (f"{because}; {asked}", *notes), speed, advice())
        if result.faster is None and result.lead >= LEAD and result.may_be_no_gain:
            because = f"the pairs of epochs were {_range(result)} times as fast: there may be no gain at all"
            return Verdict(self.subject, Outcome.UNDECIDED, (because, f"{says}; {asked}", *notes), speed, advice())
        if result.faster is None:
            end = "" if speed.pairs == MAX_PAIRS else ", and the time is over"
            because = f"after {speed.pairs} pairs of epochs neither side leads by three{end}: too noisy, or too close"
            return Verdict(self.subject, Outcome.UNDECIDED, (because, f"{says}; {asked}", *notes), speed, advice())
        if result.faster:
            return Verdict(self.subject, Outcome.DONE, (says, *notes), speed, self._next(speed))
        return Verdict(self.subject, Outcome.NOT_YET, (f"{says}; {asked}", *notes), speed, self._next(speed))

    def _next(self, speed: Speed) -> str:
        """A sentence that says where the time goes now; none where a part of an epoch was raced."""
        if self.timed.phases:
            return ""
        phase, seconds = max(speed.phases_after.items(), key=lambda item: item[1])
        share = f"{seconds / sum(speed.phases_after.values()):.0%} of an epoch"
        if phase == Phase.DATA_WAIT:
            anew = ", which begins with starting the workers anew (persistent_workers=True keeps them)"
            return f"the loop still waits for data for {share}{anew if self.restarts_workers else ''}"
        if phase == Phase.OTHER:
            return f"{share} goes into neither loading nor model nor optimizer: profile main() line by line"
        return f"what is left is mostly computation: the largest phase is {phase}, {share}"


def copies(script: JudgedScript) -> tuple[float, float]:
    """Return the share of a script's copy time that is hidden under kernels, and the time of a step in ms."""
    script.epoch()
    hidden = hidden_share(script.epoch(Proceed(trace_copies=True)).report.copy_trace or {})
    return hidden, median(script.epoch().seconds for _ in range(5)) / (script.epoch_steps or 1) * 1e3


def hidden_share(trace: Mapping[str, Sequence[tuple[int, int]]]) -> float:
    """Return the share of the time of "copies" that lies under "kernels"; of each, start and end are given."""
    copies, kernels = (union_of(trace.get(kind, ())) for kind in ("copies", "kernels"))
    return overlap(copies, kernels).length / copies.length if copies.length else 0.0


def _without_figures(sentence: str) -> str:
    return re.sub(r"\d[\d.,]*%?", "", sentence)


def _range(result: Result) -> str:
    ratios = [pair.ratio for pair in result.pairs]
    return f"between {min(ratios):.2f} and {max(ratios):.2f}"


def _how_far(pairs: Sequence[Pair], target: float) -> str:
    """Say how far a race is, and how long it takes if it goes on as it has gone so far."""
    result = Result(target, tuple(pairs))
    left = max(1, min(LEAD - abs(result.lead), MAX_PAIRS - len(pairs)))
    left_s = left * mean(pair.before_s + pair.after_s for pair in pairs)
    so_far = f"pair {len(pairs)} of at most {MAX_PAIRS}: {result.ratio:.2f} times as fast so far"
    return f"{so_far}; {left_s:.0f} s left at least"
