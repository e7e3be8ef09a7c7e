"""How a race ends at each true ratio, by simulation, and how often the interval beside a verdict holds the true ratio.

    python benchmarks/decision_rates.py --picture benchmarks/decision_rates.svg

Each pair's ratio is the true one times chance, of the kinds in `NOISES`. The race of `workshop.judge.race` is run on
the same pairs as the rule before it, which is kept here only to compare: the side that has won three pairs more than
the other was right, unless the 95 % interval, made for a single look, was very wide or held 1. `check_error_rates.py`
measures how often real scripts are judged right; this says what lies between.
"""

import argparse
import math
import random
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from workshop.judge.race import MAX_PAIRS, MIN_PAIRS, race
from workshop.noise import student_t

TARGET = 1.5
TRUE_RATIOS = (0.5, 0.67, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0)
"""The true ratio, divided by the target."""

Noise = Callable[[random.Random], list[float]]
"""Draws the logarithms of what chance multiplies the ratios of a race's pairs with."""


class End(NamedTuple):
    """How a race ended."""

    faster: bool | None
    pairs: int
    interval: tuple[float, float]

    @property
    def contradicts(self) -> bool:
        """Whether there is a verdict although the interval holds the target, or lies on the other side of it."""
        low, high = self.interval
        return self.faster is not None and not (low >= TARGET if self.faster else high < TARGET)


def scatter(percent: float) -> Noise:
    """Return normal noise by which pairs differ by so many percent."""
    deviation = math.log1p(percent / 100)
    return lambda dice: [dice.gauss(0.0, deviation) for _ in range(MAX_PAIRS)]


def outliers(dice: random.Random) -> list[float]:
    """Scatter by 3 %; in one pair of ten, another program makes one of the scripts take twice as long."""
    twice = math.log(2)
    return [log + (dice.choice([-twice, twice]) if dice.random() < 0.1 else 0.0) for log in scatter(3)(dice)]


def busy_stretches(dice: random.Random) -> list[float]:
    """Scatter by 3 % or by 22 %; the machine stays quiet, or busy, for four pairs on average."""
    busy, logs = dice.random() < 0.5, []
    for _ in range(MAX_PAIRS):
        logs.append(dice.gauss(0.0, 0.2 if busy else 0.03))
        busy ^= dice.random() < 0.25
    return logs


def alike(dice: random.Random) -> list[float]:
    """Scatter by 11 %, with a correlation of 0.6 between a pair and the next: what slows one script stays a while."""
    logs = [dice.gauss(0.0, 0.1)]
    while len(logs) < MAX_PAIRS:
        logs.append(0.6 * logs[-1] + 0.8 * dice.gauss(0.0, 0.1))
    return logs


def drift(dice: random.Random) -> list[float]:
    """Scatter by 3 %, while the ratio goes from 10 % too low to 10 % too high in 30 pairs, or the other way."""
    sign = dice.choice([-1, 1])
    return [log + sign * 0.1 * (number / 14.5 - 1) for number, log in enumerate(scatter(3)(dice))]


NOISES: dict[str, Noise] = {
    "pairs scatter by 3 %": scatter(3),
    "pairs scatter by 11 %": scatter(11),
    "pairs scatter by 35 %": scatter(35),
    "3 %, and one pair in ten is off by 2x": outliers,
    "3 % or 22 %, busy for a while": busy_stretches,
    "11 %, and a pair resembles the one before": alike,
    "3 %, with a drift of 20 %": drift,
}
DRAWN = tuple(NOISES)[:3]
"""The kinds of noise that are in the picture."""


def until_outside(ratios: list[float]) -> End:
    """Run the judge's race."""
    result = race(iter(ratios).__next__, lambda: 1.0, lambda: TARGET)
    return End(result.faster, len(result.pairs), result.interval)


def lead_by_three(ratios: list[float]) -> End:
    """Run a race by the rule before."""
    logs = [math.log(ratio) for ratio in ratios]
    lead, low, high = 0, 0.0, math.inf
    for count, ratio in enumerate(ratios, 1):
        lead += 1 if ratio >= TARGET else -1
        if count < MIN_PAIRS:
            continue
        if abs(lead) >= 3 or count == MAX_PAIRS:
            half = student_t(count - 1) * stdev(logs[:count]) / math.sqrt(count)
            low, high = math.exp(fmean(logs[:count]) - half), math.exp(fmean(logs[:count]) + half)
        if abs(lead) >= 3 and high <= 10 * low and (lead < 0 or low > 1):
            return End(lead > 0, count, (low, high))
    return End(None, MAX_PAIRS, (low, high))


RULES = {"now": until_outside, "lead by three": lead_by_three}


def picture(curves: dict[tuple[str, str], list[float]]) -> str:
    """Draw the share of "done" over the true ratio, a curve for each noise and rule, as SVG."""
    width, height, left, bottom = 640, 260, 60, 40
    low, high = math.log(TRUE_RATIOS[0]), math.log(TRUE_RATIOS[-1])

    def place(ratio: float, share: float) -> tuple[float, float]:
        x = left + (math.log(ratio) - low) / (high - low) * (width - left - 170)
        return round(x, 1), round((height - bottom) - share * (height - bottom - 20), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for share in (0.0, 0.5, 1.0):
        (x, y), (end, _) = place(TRUE_RATIOS[0], share), place(TRUE_RATIOS[-1], share)
        parts.append(f'<path d="M{x} {y}H{end}" stroke="#ccc"/><text x="{x - 40}" y="{y + 4}">{share:.0%}</text>')
    for ratio in (0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0):
        x, y = place(ratio, 0.0)
        parts.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle">{ratio:g}</text>')
    x, top = place(1.0, 1.0)
    parts.append(f'<path d="M{x} {top}V{height - bottom}" stroke="#999" stroke-dasharray="4"/>')
    parts.append(f'<text x="{left}" y="{height - 6}">true ratio, divided by the target</text>')
    parts.append(f'<text x="{left}" y="13">share of the verdicts that are "done"</text>')
    for number, noise in enumerate(DRAWN):
        colour = ("#1b6ca8", "#d9822b", "#a82255")[number]
        for rule in RULES:
            shares = curves[noise, rule]
            points = " ".join("{},{}".format(*place(*each)) for each in zip(TRUE_RATIOS, shares, strict=True))
            style = 'stroke-width="2"' if rule == "now" else 'stroke-width="1" stroke-dasharray="2 2"'
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" {style}/>')
        parts.append(f'<text x="{width - 160}" y="{60 + 20 * number}" fill="{colour}">{noise}</text>')
    parts.append(f'<text x="{width - 160}" y="130" fill="#666">dotted: lead by three</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Print a table for each kind of noise, with both rules side by side."""
    parser = argparse.ArgumentParser(description="Simulate races.")
    parser.add_argument("--races", type=int, default=10_000, help="for each row; default %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="an SVG file to write")
    args = parser.parse_args()
    dice = random.Random(args.seed)
    curves: dict[tuple[str, str], list[float]] = {}
    contradictions = dict.fromkeys(RULES, 0)
    for name, noise in NOISES.items():
        print(f"\n{name}\n{'':15}" + "".join(f"{rule:^46}" for rule in RULES))
        print("true / target  " + "   done  not yet  undecided  pairs  coverage   " * len(RULES))
        for share in TRUE_RATIOS:
            true = share * TARGET
            races = [[true * math.exp(log) for log in noise(dice)] for _ in range(args.races)]
            row = f"{share:13.2f}  "
            for rule, run in RULES.items():
                ends = [run(ratios) for ratios in races]
                done, not_yet, undecided = (fmean(end.faster is each for end in ends) for each in (True, False, None))
                held = fmean(end.interval[0] <= true <= end.interval[1] for end in ends)
                pairs = fmean(end.pairs for end in ends)
                row += f"{done:7.1%} {not_yet:8.1%} {undecided:10.1%} {pairs:6.1f} {held:9.1%}   "
                curves.setdefault((name, rule), []).append(done)
                contradictions[rule] += sum(end.contradicts for end in ends)
            print(row, flush=True)
    print(
        f"\nverdicts beside an interval that holds the target, of {args.races * len(NOISES) * len(TRUE_RATIOS)} races:"
    )
    for rule, count in contradictions.items():
        print(f"{rule}: {count}")
    if args.picture:
        args.picture.write_text(picture(curves))


if __name__ == "__main__":
    main()
