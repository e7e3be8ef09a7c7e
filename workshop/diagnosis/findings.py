"""The bottlenecks of a script: the cause, the line, and the potential speedup."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, TypeVar

from workshop.probe.cause import Cause, CausePlace, Half
from workshop.profiles.stacks import Frame

MIN_GAIN = 1.05
"""Speedup, at least, of a finding that is reported."""

MIN_SHARE_OF_STEP = 0.04
"""Share of a step, at least, of what is reported."""

MAX_GAIN = 1000.0
"""Speedup, at most, that shares of the time can show."""

COST_MARGIN = 1.25
"""The factor by which removing a line may save more than its time: what follows it finds cold caches and sleeping
threads."""


class Ranked(Protocol):
    """A finding, of time or of memory, that has its place among others."""

    @property
    def is_worth_it(self) -> bool:
        """Whether it brings enough to be reported."""

    @property
    def order(self) -> tuple[float, ...]:
        """What findings are sorted by: first those of which others may be consequences, last the options."""


SomeFinding = TypeVar("SomeFinding", bound=Ranked)


def in_order(findings: Iterable[SomeFinding]) -> list[SomeFinding]:
    """Return the findings worth reporting, those that bring most first."""
    return sorted((each for each in findings if each.is_worth_it), key=lambda each: each.order)


@dataclass(frozen=True)
class Finding:
    """A bottleneck that can be fixed."""

    cause: str
    """A stable name, such as "slow-item"."""
    phase: str
    """The phase in which it costs time; empty if there are several."""
    file: str
    """The path of the script or module; empty if no line causes it."""
    line: int | None
    function: str
    process: str
    """"training" or "worker"; in a run with several ranks, "rank 1" or "rank 1, worker"."""
    ms_a_step: float
    share: float
    """The share of a step's time."""
    gain: float
    """The potential speedup: the most that fixing it can bring, `step_ms` divided by `fixed_step_ms`."""
    gain_low: float | None
    """What it has brought where it was tried; None if `gain` is a limit, and what it brings is not known."""
    measured: bool
    """Whether the gain was measured; otherwise it is derived from shares of the time."""
    words: str
    """What to do about it, in a sentence or two."""
    source: str
    """How `fixed_step_ms` is known: "measured", or what it was estimated from."""
    saved_ms: float = 0.0
    """What a step would be shorter by, as far as it was seen."""
    margin: float = 1.0
    """The gain that follows from `saved_ms` is taken this many times: what comes after the line may get faster, too."""
    max_gain: float = MAX_GAIN
    """The most that can be gained there."""
    decided_in: tuple[str, int] | None = None
    """The file and the line that decide how often it is done, if that is another one."""
    beside: dict[int, float] = field(default_factory=dict)
    """Other lines of the same function that take time: the share of a step, by the number of the line."""
    place: CausePlace = CausePlace.FAULT
    """The place of the cause among others."""
    half: Half | None = None
    """The headroom that limits the gain, if one does."""

    @property
    def step_ms(self) -> float:
        """The duration of a step as it is."""
        return self.ms_a_step / self.share

    @property
    def fixed_step_ms(self) -> float:
        """The shortest duration of a step after the fix."""
        return self.step_ms / self.gain

    @property
    def figures(self) -> str:
        """The figures that lead to `fixed_step_ms`, in words; empty if it was measured as it is."""
        if self.measured:
            return ""
        left_ms = self.step_ms - self.saved_ms
        seen = self.step_ms / left_ms
        says = [
            f"{self.step_ms:.1f} ms without {self.saved_ms:.1f} ms are {left_ms:.1f} ms, {seen:.2f}x",
            *[f"{self.margin - 1:.0%} more gain for what follows from it, {1 + self.margin * (seen - 1):.2f}x"]
            * (self.margin != 1.0),
            *[f"limited to {self.gain:.2f}x, the most that can be gained there"] * (self.gain == self.max_gain),
        ]
        return "; ".join(says)

    @property
    def basis(self) -> str:
        """How `fixed_step_ms` is known, and the figures that lead to it."""
        return f"{self.source}: {self.figures}" if self.figures else self.source

    @property
    def speedup(self) -> str:
        """The potential speedup in words: a limit, what was measured, or what was measured and a limit."""
        if self.gain_low is None:
            return f"up to {self.gain:.1f}x"
        low, high = f"{self.gain_low:.1f}x", f"{self.gain:.1f}x"
        return high if low == high else f"{low} to {high}"

    @property
    def fixed(self) -> str:
        """The milliseconds of a step after the fix, in words likewise."""
        if self.gain_low is None:
            return f"no less than {self.fixed_step_ms:.1f} ms"
        short, long = f"{self.fixed_step_ms:.1f}", f"{self.step_ms / self.gain_low:.1f}"
        return f"{short} ms" if short == long else f"{short} to {long} ms"

    @property
    def together(self) -> float:
        """The share of a step's time that all these lines of the function take."""
        return self.share + sum(self.beside.values())

    @property
    def is_option(self) -> bool:
        """Whether it was faster in a trial: not to use it is no fault."""
        return self.place is CausePlace.OPTION

    @property
    def is_worth_it(self) -> bool:
        """Whether it brings enough to be reported."""
        return self.gain >= MIN_GAIN

    @property
    def order(self) -> tuple[float, ...]:
        """Growing steps and a slow rank come first, then the largest potential speedup; options come last."""
        return self.place, -self.gain

    def costs(self, rough: str) -> str:
        """Return what it costs and what may be gained, in sentences; `rough` stands before what is no limit."""
        rough = rough if self.gain_low is not None else ""
        beside = ""
        if self.beside:
            others = ", ".join(f"line {number}: {share:.0%}" for number, share in self.beside.items())
            beside = f" In the same function, {others}; together {self.together:.0%}."
        durations = f"a step of {self.step_ms:.1f} ms would take {rough}{self.fixed}"
        gain = f"Potential speedup: {rough}{self.speedup}, {durations} ({self.source})."
        return f"{self.ms_a_step:.1f} ms a step, {self.share:.0%}.{beside} {gain}"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain values for JSON."""
        derived = ("step_ms", "fixed_step_ms", "speedup", "fixed", "figures", "basis")
        values = asdict(self) | {name: getattr(self, name) for name in derived}
        return {name: value for name, value in values.items() if name not in ("place", "half")}


def finding(
    cause: Cause,
    words: str,
    *,
    gain: float,
    ms_a_step: float,
    share: float,
    phase: str = "",
    path: tuple[Frame, ...] = (),
    process: str = "training",
    margin: float | None = None,
    max_gain: float = MAX_GAIN,
    low: float | None = None,
    measured: bool = False,
    basis: str = "estimated from its time",
    beside: dict[int, float] | None = None,
    decided_in: tuple[str, int] | None = None,
) -> Finding:
    """Make a finding about the last line of a path of frames of user code.

    A gain that was not measured is an upper limit, so the cost is taken as `margin` times what was seen: `COST_MARGIN`
    by default. The gain is never more than `max_gain`. What it has brought, where less than all of it was tried, is
    `low`. A duration of a step follows from `ms_a_step` and `share`.
    """
    frame = path[-1] if path else Frame("", "")
    functions = [each.name for each in path if each.name == "<module>" or not each.name.startswith("<")]
    margin = margin or (1.0 if measured else COST_MARGIN)
    max_gain = min(max_gain, MAX_GAIN)
    most = min(1.0 + margin * (gain - 1.0), max_gain)
    least = low or (gain if measured else None)
    step_ms = ms_a_step / min(share, 1.0) if share else 0.0  # of what saves nothing, which is not reported
    return Finding(
        cause=cause.name,
        place=cause.place,
        half=cause.half,
        phase=phase,
        file=frame.path,
        line=frame.line,
        function=functions[-1] if functions else frame.name,
        process=process,
        ms_a_step=ms_a_step,
        share=min(share, 1.0),
        gain=most,
        gain_low=least and min(least, most),
        measured=measured,
        words=words,
        saved_ms=step_ms - step_ms / gain,
        margin=margin,
        max_gain=max_gain,
        source="measured" if measured else basis,
        decided_in=decided_in,
        beside=beside or {},
    )


def within_phase(found: Finding, share: float) -> Finding:
    """Return a finding whose gain is no more than ending its phase would bring, which has this share of a step.

    One that was measured may be more, and so may one with a limit of its own in a phase that takes long, as of workers
    that hinder the computing, too.
    """
    is_limited = found.measured or (found.max_gain < MAX_GAIN and share >= MIN_SHARE_OF_STEP)
    return found if is_limited else limited(found, 1.0 + COST_MARGIN * (gain_of(1.0, 1.0 - share) - 1.0))


def limited(found: Finding, max_gain: float) -> Finding:
    """Return a finding whose gain is no more than this, but for what was measured."""
    max_gain = max(max_gain, found.gain_low or 1.0)
    return found if found.gain <= max_gain else replace(found, gain=max_gain, max_gain=max_gain)


def gain_of(before_ms: float, after_ms: float) -> float:
    """Return the speedup of a step from one duration to another; `MAX_GAIN` at most."""
    return min(before_ms / max(after_ms, 1e-9), MAX_GAIN)
