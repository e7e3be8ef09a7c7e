"""How often is the race wrong? Trials on a machine under random load, with scripts whose true ratio is known.

    python benchmarks/check_error_rates.py [--trials 300] [--json FILE]

Each script trains a small model; a step sleeps and computes, both in proportion to a factor, so that the true ratio is
the same whatever else the machine does. One script lies 1.25 times below the target, one 1.25 times above. All three
run as `workshop check` runs scripts, and each trial is a whole race, of up to as many pairs as a check may take, but
without a limit of time. All the while, as many more processes as there are cores burn for random times.
"""

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from machine import machine

from workshop.judge.judged_script import JudgedScript
from workshop.judge.race import RaceResult, race
from workshop.runs.script import run_folder

TARGET = 1.5
MARGIN = 1.25
STEPS = 4
SCRIPT = """
import sys, time, torch

factor = float(sys.argv[1])
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
inputs, targets = torch.randn(8, 64), torch.randn(8, 64)
operand = torch.randn(128, 128)
while True:
    time.sleep(0.025 * factor)
    for _ in range(int(200 * factor)):
        operand @ operand
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
"""


def main() -> None:
    """Run the trials and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=300, help="of each kind (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the counts there, too")
    args = parser.parse_args()

    print(machine())
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        script = Path(folder) / "script.py"
        script.write_text(SCRIPT)
        before, slower, faster = (
            stack.enter_context(
                JudgedScript([str(script), str(factor)], stack.enter_context(run_folder()), epoch_steps=STEPS)
            )
            for factor in (MARGIN * TARGET, MARGIN * MARGIN, 1.0)
        )
        for each in (before, slower, faster):
            each.epoch()
        for name, script in (("below", slower), ("above", faster)):
            print(f"the one {name} the target, on the quiet machine: {true_ratio(before, script):.3f} times as fast")
        with load(os.cpu_count() or 1):
            results = {
                name: [trial(before, script) for _ in range(args.trials)]
                for name, script in (("below", slower), ("above", faster))
            }
    counts = {name: Counter(map(end, found)) for name, found in results.items()}
    print_table(counts)
    for name, found in results.items():
        pairs = Counter(len(result.pairs) for result in found)
        print(f"pairs of the one {name}: {', '.join(f'{pairs[count]} x {count}' for count in sorted(pairs))}")
    contradictions = sum(contradicts(result) for found in results.values() for result in found)
    print(f"verdicts whose interval holds the target, or lies on the other side of it: {contradictions}")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "counts": counts}, indent=2) + "\n")


def true_ratio(before: JudgedScript, after: JudgedScript) -> float:
    """The median over interleaved epochs."""
    return median(before.epoch().seconds / after.epoch().seconds for _ in range(15))


def trial(before: JudgedScript, after: JudgedScript) -> RaceResult:
    """One race, as a check runs it."""
    return race(lambda: before.epoch().seconds, lambda: after.epoch().seconds, lambda: TARGET)


def end(result: RaceResult) -> str:
    """How a race ended."""
    return {True: "faster", False: "slower", None: "undecided"}[result.faster]


def contradicts(result: RaceResult) -> bool:
    """Whether the interval beside a verdict does not say the same."""
    low, high = result.interval
    return result.faster is not None and not (low >= TARGET if result.faster else high < TARGET)


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes that burn and rest for random times."""
    burners = [multiprocessing.Process(target=burn, args=(seed,), daemon=True) for seed in range(processes)]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()


def burn(seed: int) -> None:
    """Burn and rest, each for 0.05 to 2 seconds, short times as likely as long ones on a log scale."""
    dice = random.Random(seed)
    while True:
        until = time.monotonic() + 0.05 * 40 ** dice.random()
        while time.monotonic() < until:
            pass
        time.sleep(0.05 * 40 ** dice.random())


def print_table(counts: dict[str, Counter[str]]) -> None:
    """Right, wrong and undecided, of each kind."""
    print(f"\n{'true ratio':<28}{'trials':>8}{'right':>8}{'wrong':>8}{'undecided':>11}")
    for name, right, wrong in (("below", "slower", "faster"), ("above", "faster", "slower")):
        found, sign = counts[name], "/" if name == "below" else "x"
        shares = [found[kind] / found.total() for kind in (right, wrong, "undecided")]
        label = f"{MARGIN} {name} ({TARGET} {sign} {MARGIN})"
        print(f"{label:<28}{found.total():>8}{shares[0]:>8.1%}{shares[1]:>8.1%}{shares[2]:>11.1%}")


if __name__ == "__main__":
    main()
