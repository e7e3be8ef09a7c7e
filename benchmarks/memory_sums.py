"""Do the sums of `workshop memory` agree with torch's allocator and with the kernel, and what does it cost?

    python benchmarks/memory_sums.py [--scripts 10] [--seconds 8] [--pairs 5]

Ten small scripts, made from one template, run under `workshop memory --json`: without workers, and with workers that
are forked or spawned. The tensors of the step with the peak are compared with what the allocator says. Meanwhile,
`/proc/PID/smaps_rollup` is read here, too; the processes are compared with what it said when all together had most.
Then a step of 100 ms is timed by the script itself, alone and under `workshop memory`, in pairs of runs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from machine import machine

from workshop.runs.process_tree import descendants

READ_EVERY_S = 0.25
LEAST = 10 << 20
"""Smaller processes, such as the tracker of resources, are left out."""

STEPS, SETTLED = 60, 10

SCRIPT = """
import sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WIDTH, BATCH, WORKERS, METHOD, STEPS = {settings}
STEP_S = 0.1


class Rows(Dataset):
    def __init__(self):
        self.rows = torch.randn(50_000, WIDTH)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def main():
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    options = dict(multiprocessing_context=METHOD, persistent_workers=True) if WORKERS else {{}}
    loader = DataLoader(Rows(), BATCH, shuffle=True, num_workers=WORKERS, **options)
    times = []
    while True:
        for x in loader:
            begin = time.perf_counter()
            optimizer.zero_grad()
            model(x).square().mean().backward()
            while STEPS and time.perf_counter() - begin < STEP_S:
                torch.randn(128, 128) @ torch.randn(128, 128)
            optimizer.step()
            times.append(time.perf_counter())
            if STEPS and len(times) == STEPS:
                print(times[-1] - times[{settled}], file=open(sys.argv[1], "w"))
                return


if __name__ == "__main__":
    main()
"""

CASES = [
    (128, 64, 0, None),
    (256, 512, 0, None),
    (64, 4096, 0, None),
    (128, 64, 1, "fork"),
    (256, 512, 2, "fork"),
    (64, 2048, 4, "fork"),
    (128, 64, 1, "spawn"),
    (256, 512, 2, "spawn"),
    (64, 2048, 2, "spawn"),
    (512, 256, 2, "forkserver"),
]
"""Width, size of a batch, workers, and how these are started."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scripts", type=int, default=len(CASES), help="the first so many (default: all)")
    parser.add_argument("--seconds", default="8", help="that each script is watched (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="of runs that are timed (default: %(default)s)")
    args = parser.parse_args()
    print(f"{machine()}\n\n| width, batch, workers | tensors off by | all processes off by | one process, at most |")
    print("|---" * 4 + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        for case in CASES[: args.scripts]:
            script.write_text(SCRIPT.format(settings=(*case, 0), settled=SETTLED))
            errors = compared(*watched("--no-trials", "--seconds", args.seconds, "--json", str(script)))
            print(f"| {case} | {' | '.join(f'{each:.2%}' for each in errors)} |", flush=True)
        script.write_text(SCRIPT.format(settings=(*CASES[1], STEPS), settled=SETTLED))
        ratios = [timed(script, number) for number in range(args.pairs)]
    spread = f"{median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}"
    print(f"\na step of 100 ms, with and without: {spread} times as long")


def watched(*arguments: str) -> tuple[Any, list[dict[int, int]]]:
    """Return what `workshop memory` says, and the shares of all processes as they were read here meanwhile."""
    looks, over = list[dict[int, int]](), threading.Event()
    with subprocess.Popen([sys.executable, "-m", "workshop", "memory", *arguments], stdout=subprocess.PIPE) as process:

        def read() -> None:
            while not over.wait(READ_EVERY_S):
                looks.append({each.pid: share(each.pid) for each in descendants(process.pid)})

        reader = threading.Thread(target=read)
        reader.start()
        said, _ = process.communicate()
        over.set()
        reader.join()
    return json.loads(said), looks


def share(pid: int) -> int:
    """Return the share of a process of all memory, in bytes; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def compared(found: Any, looks: Sequence[dict[int, int]]) -> tuple[float, float, float]:
    """Return by which share the tensors are off, all processes together, and the one that is off most."""
    tensors = [
        abs(each["followed_bytes"] / each["allocator_bytes"] - 1) for each in found["peaks"] if each["allocator_bytes"]
    ]
    most = max(looks, key=lambda each: sum(each.values()))
    rows = {each["pid"]: each["pss"] for each in found["host"]["processes"] if each["pss"] > LEAST}
    together = abs(found["host"]["together_bytes"] / sum(most.values()) - 1)
    single = [abs(size / most[pid] - 1) if most.get(pid) else 1.0 for pid, size in rows.items()]
    return max(tensors, default=float("nan")), together, max(single)


def timed(script: Path, number: int) -> float:
    """Return how many times as long steps take if they are watched; which of the two comes first changes."""
    plain, memory = [sys.executable], [sys.executable, "-m", "workshop", "memory", "--no-trials", "--seconds", "60"]
    seconds = {}
    for each in (plain, memory) if number % 2 else (memory, plain):
        output = script.with_name("seconds.txt")
        done = subprocess.run([*each, str(script), str(output)], cwd=script.parent, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.stdout)
        seconds[len(each)] = float(output.read_text())
    return seconds[len(memory)] / seconds[len(plain)]


if __name__ == "__main__":
    main()
