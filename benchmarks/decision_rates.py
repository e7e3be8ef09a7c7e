"""How a race ends at each true ratio, by simulation, and how often the interval beside a verdict holds the true ratio.

    python benchmarks/decision_rates.py --races 10000 --picture benchmarks/decision_rates.svg

Each pair's ratio is the true one times chance: a normal deviation of its logarithm, with the standard deviation that
is named. `check_error_rates.py` measures how often real scripts are judged right; this says what lies between.
"""

import argparse
import math
import random
from pathlib import Path

from workshop.judge.race import RaceResult, race

TARGET = 1.5
TRUE_RATIOS = (0.5, 0.67, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0)
"""The true ratio, divided by the target."""


def simulate(ratio: float, deviation: float, dice: random.Random) -> RaceResult:
    """Run one race in which only chance has a part."""
    return race(lambda: ratio * math.exp(dice.gauss(0.0, deviation)), lambda: 1.0, TARGET)


def picture(curves: dict[str, list[float]]) -> str:
    """Draw the share of "done" over the true ratio, a curve for each deviation, as SVG."""
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
    for number, (name, shares) in enumerate(curves.items()):
        colour = ("#1b6ca8", "#d9822b", "#a82255", "#3a7d44")[number % 4]
        points = " ".join("{},{}".format(*place(*each)) for each in zip(TRUE_RATIOS, shares, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{width - 160}" y="{60 + 20 * number}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Print a table for each deviation."""
    parser = argparse.ArgumentParser(description="Simulate races.")
    parser.add_argument("--races", type=int, default=10_000, help="for each row; default %(default)s")
    parser.add_argument("--deviations", type=float, nargs="*", default=[0.03, 0.1, 0.3], help="of the log of a pair")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="an SVG file to write")
    args = parser.parse_args()
    dice = random.Random(args.seed)
    curves: dict[str, list[float]] = {}
    for deviation in args.deviations:
        name = f"pairs scatter by {math.expm1(deviation):.0%}"
        print(f"\n{name}")
        print("true / target   done  not yet  undecided  pairs  interval holds the true ratio")
        for share in TRUE_RATIOS:
            true = share * TARGET
            results = [simulate(true, deviation, dice) for _ in range(args.races)]
            ends = [sum(result.faster is end for result in results) / args.races for end in (True, False, None)]
            pairs = sum(len(result.pairs) for result in results) / args.races
            curves.setdefault(name, []).append(ends[0])
            held = sum(result.interval[0] <= true <= result.interval[1] for result in results) / args.races
            print(f"{share:13.2f} {ends[0]:6.1%} {ends[1]:8.1%} {ends[2]:10.1%} {pairs:6.1f} {held:8.1%}", flush=True)
    if args.picture:
        args.picture.write_text(picture(curves))


if __name__ == "__main__":
    main()
