"""Three headrooms of a step: without the wait for data, without what calls cost, and at this device's full speed.

A step is the wait for data, the computing of operators, and what is left: Python, what it takes to call operators, and
what only a few steps do. Each headroom is what ending one part, or computing at full speed, can bring at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from workshop.diagnosis.measurement import Measurement
from workshop.probe.cause import Half
from workshop.probe.observations import OperatorWork
from workshop.probe.phases import COMPUTING, Phase

OF_WORK = ("seconds", "calls", "operations", "bytes", "dtype", "products", "copied")
"""The fields of an `OperatorWork` that are in `--json`."""


@dataclass(frozen=True)
class Headroom:
    """What a step would take without one of its parts, or with a shorter one."""

    half: Half
    step_ms: float
    left_ms: float
    """The milliseconds of a step that are left."""
    known: str
    """How that is known."""

    @property
    def gain(self) -> float:
        """The speedup of a step, at most."""
        return self.step_ms / max(self.left_ms, 1e-9)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"half": self.half, "left_ms": self.left_ms, "gain": self.gain, "known": self.known}


@dataclass(frozen=True)
class Headrooms:
    """Those of a measurement whose stages are comparable, as far as they are known."""

    measurement: Measurement

    @property
    def step_ms(self) -> float:
        """The milliseconds of a step as it is."""
        return self.measurement.steps.ms_a_step

    @property
    def work(self) -> OperatorWork:
        """What operators compute; nothing if that is not known."""
        return self.measurement.observations.operators or OperatorWork(0.0, 0, 0)

    @cached_property
    def without_wait_ms(self) -> float:
        """The milliseconds of a step that does not wait for data."""
        if headroom := self.measurement.headroom:
            return min(headroom.ms_a_step, self.step_ms)
        return self.step_ms * (1.0 - self.measurement.table.share(Phase.DATA_WAIT))

    @cached_property
    def usual_ms(self) -> float:
        """The milliseconds that half of the steps do not exceed, without the wait for data if that was measured."""
        steps = self.measurement.headroom or self.measurement.steps
        return median(steps.durations_s) * 1e3 if steps.durations_s else steps.ms_a_step

    @cached_property
    def validates_ms(self) -> float:
        """The milliseconds of a step in validations, in which others than the profiled operators compute."""
        return min(self.measurement.table.ms_in(Phase.VALIDATION), self.without_wait_ms)

    @cached_property
    def seldom_ms(self) -> float:
        """The milliseconds of a step that are spent in a few of the steps, neither to wait for data nor to validate."""
        return max(self.without_wait_ms - self.usual_ms - self.validates_ms, 0.0)

    @cached_property
    def computing_ms(self) -> float:
        """The milliseconds of a usual step in which operators compute.

        Profiled steps are longer by what the profiler costs, and at times by what other programs do. What a GPU does is
        not.
        """
        own_ms = self.without_wait_ms - self.validates_ms - self.seldom_ms
        if self.measurement.circumstances.device == "cuda":
            return max(min(self.work.seconds * 1e3, own_ms), 0.0)
        seconds, step_s = self.work.seconds, self.work.step_s
        return own_ms * min(seconds / step_s, seconds * 1e3 / own_ms) if seconds and own_ms > 0 else 0.0

    @property
    def operators_ms(self) -> float:
        """The same with validations, as far as is known."""
        return self.computing_ms + self.validates_ms if self.computing_ms else 0.0

    @property
    def speed(self) -> float:
        """The operations per second while operators compute, as a share of those of a product of their type."""
        return self._share(self.work.operations, self.work.products.get(self.work.dtype, 0.0))

    @property
    def copying(self) -> float:
        """The bytes per second while operators compute, as a share of those of a copy; 1 also if they are in caches."""
        return self._share(self.work.bytes, self.work.copied)

    def _share(self, amount: float, a_second: float) -> float:
        return min(amount / (self.computing_ms / 1e3 * a_second), 1.0) if self.computing_ms and a_second else 0.0

    @property
    def utilization(self) -> float:
        """The operations per second of the whole step, as the same share: model FLOPs utilization, or MFU."""
        return self.speed * self.computing_ms / self.step_ms

    @cached_property
    def known(self) -> dict[Half, Headroom]:
        """The headrooms."""
        return {each.half: each for each in self._known()}

    def _known(self) -> Iterator[Headroom]:
        if self.measurement.headroom:
            yield Headroom(Half.DATA, self.step_ms, self.without_wait_ms, "steps with batches from memory")
        if not self.operators_ms:
            return
        calls_ms = self.without_wait_ms - self.operators_ms
        yield Headroom(Half.LAUNCHES, self.step_ms, self.step_ms - calls_ms, "operators under torch.profiler")
        if speed := max(self.speed, self.copying):
            left_ms = self.step_ms - self.computing_ms * (1.0 - speed)
            shares = f"{self.speed:.0%} of a matrix product, {self.copying:.0%} of a copy, MFU {self.utilization:.0%}"
            yield Headroom(Half.ARITHMETIC, self.step_ms, left_ms, shares)

    @property
    def says(self) -> str:
        """What bounds a step, the largest of its parts, in a sentence; empty if it is not known."""
        waits_ms, known = self.step_ms - self.without_wait_ms, self.known
        rest_ms = self.without_wait_ms - self.operators_ms - self.seldom_ms
        largest_ms = max(waits_ms, rest_ms, self.operators_ms, self.seldom_ms)
        if waits_ms == largest_ms and Half.DATA not in known:
            return f"Waits for data for {waits_ms:.1f} of {self.step_ms:.1f} ms."
        if waits_ms == largest_ms:
            left = f"{self.without_wait_ms:.1f} of {self.step_ms:.1f} ms"
            return f"Waits for data: with batches from memory, a step takes {left}."
        if self.seldom_ms == largest_ms:
            usual = f"half of the steps take no more than {self.usual_ms:.1f} ms"
            return f"Bound by what a few steps do: {usual}, on average it is {self.step_ms:.1f}."
        if Half.LAUNCHES not in known:
            return ""
        computes = f"operators compute for {self.operators_ms:.1f} of {self.step_ms:.1f} ms"
        if rest_ms == largest_ms:
            in_calls = self.measurement.table.ms_in(*COMPUTING) - self.operators_ms
            bound = "Launch-bound" if in_calls > rest_ms / 2 else "Python-bound"
            return f"{bound}: {computes}, in {self.work.calls} calls; the rest is Python and dispatch."
        if Half.ARITHMETIC not in known:
            return f"Bound by arithmetic: {computes}."
        work, share = self.work, f"{max(self.speed, self.copying):.0%} of what"
        if self.speed < self.copying:
            return f"Bound by memory: {computes}; {_short(work.bytes)}B are moved, {share} a copy moves in that time."
        counted = f"MFU {self.utilization:.0%}: {_short(work.operations)}FLOP a step by torch's flop counter"
        return f"Bound by arithmetic: {computes}, at {share} this machine can do in {work.dtype} ({counted})."

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        operators = {name: getattr(self.work, name) for name in OF_WORK}
        return {
            "says": self.says,
            "known": [each.as_dict() for each in self.known.values()],
            "operators": operators if self.operators_ms else None,
        }


def _short(count: float) -> str:
    """A number with the prefix of its size."""
    power, prefix = next((each for each in ((12, "T"), (9, "G"), (6, "M")) if count >= 10 ** each[0]), (3, "k"))
    return f"{count / 10**power:.3g} {prefix}"
