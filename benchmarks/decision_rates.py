"""How a race ends at each true ratio, by simulation, and how often the interval beside a verdict holds the true ratio.

    python benchmarks/decision_rates.py --races 10000

Each pair's ratio is the true one times chance: a normal deviation of its logarithm, with the standard deviation that
is named. `check_error_rates.py` measures how often real scripts are judged right; this says what lies between.
"""

import argparse
import math
import random

from workshop.judge.race import Result, race

TARGET = 1.5
TRUE_RATIOS = (0.5, 0.67, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0)
"""The true ratio, divided by the target."""


def simulate(ratio: float, deviation: float, dice: random.Random) -> Result:
    """Run one race in which only chance has a part."""
    return race(lambda: ratio * math.exp(dice.gauss(0.0, deviation)), lambda: 1.0, TARGET)


def main() -> None:
    """Print a table for each deviation."""
    parser = argparse.ArgumentParser(description="Simulate races.")
    parser.add_argument("--races", type=int, default=10_000, help="for each row; default %(default)s")
    parser.add_argument("--deviations", type=float, nargs="*", default=[0.03, 0.1, 0.3], help="of the log of a pair")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    for deviation in args.deviations:
        print(f"\npairs scatter by {math.expm1(deviation):.0%}")
        print("true / target   done  not yet  undecided  pairs  interval holds the true ratio")
        for share in TRUE_RATIOS:
            true = share * TARGET
            results = [simulate(true, deviation, dice) for _ in range(args.races)]
            ends = [sum(result.faster is end for result in results) / args.races for end in (True, False, None)]
            pairs = sum(len(result.pairs) for result in results) / args.races
            held = sum(result.interval[0] <= true <= result.interval[1] for result in results) / args.races
            print(f"{share:13.2f} {ends[0]:6.1%} {ends[1]:8.1%} {ends[2]:10.1%} {pairs:6.1f} {held:8.1%}", flush=True)


if __name__ == "__main__":
    main()
