"""What `workshop measure` costs the script it measures, and whether the headroom it promises is reached.

    python benchmarks/measure.py

The cost: a script with its pictures in memory, so that nothing hides hooks and samplers, times its own steps. It runs
with them and without, in turn; it trains ResNet-18, also with a worker, and a model of one small layer, where the
cost shows alone. The headroom: what is promised for the untouched script, and what part 5's solution reaches, its
cache warm.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from machine import machine

from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.stages import measure
from workshop.errors import plain_errors
from workshop.experiment import ExperimentConfig
from workshop.parts import SOLUTIONS
from workshop.pets.ensure import ensure_stand_in
from workshop.pets.layout import OFFLINE_VARIABLE
from workshop.probe.phases import Phase
from workshop.runs.measured_script import MeasuredScript
from workshop.runs.measured_steps import MeasuredSteps
from workshop.runs.script import run_folder

SCRIPT = """
import sys, time
from statistics import median
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet18

steps, side, workers = map(int, sys.argv[1:])
data = TensorDataset(torch.randn(64, 3, side, side), torch.randint(0, 37, (64,)))
loader = DataLoader(data, batch_size=16, num_workers=workers, persistent_workers=workers > 0)
model = resnet18(num_classes=37) if side > 1 else nn.Sequential(nn.Flatten(), nn.Linear(3, 37))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters())
times = []
while len(times) < steps:
    begin = time.perf_counter()
    for images, targets in loader:
        images, targets = images.to("cpu"), targets.to("cpu")
        optimizer.zero_grad()
        loss_fn(model(images), targets).backward()
        optimizer.step()
        end = time.perf_counter()
        times.append(end - begin)
        begin = end
print(median(times[8:]))
"""


def main() -> None:
    """Measure both and print two tables."""
    parser = argparse.ArgumentParser(description="Measure the measuring.")
    parser.add_argument("--rounds", type=int, default=9, help="runs with the hooks, and as many without")
    parser.add_argument("--steps", type=int, default=60, help="in a run")
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement for the headroom")
    args = parser.parse_args()

    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print_cost("ResNet-18, 16 pictures of 64 pixels", folder, args.rounds, args.steps, 64, 0)
        print_cost("the same, loaded by a worker", folder, args.rounds, args.steps, 64, 1)
        print_cost("a step of next to nothing", folder, args.rounds, 50 * args.steps, 1, 0)
        print_headroom(folder, args.seconds)


def print_cost(name: str, folder: Path, rounds: int, *arguments: int) -> None:
    """Time of a step with hooks and samplers to that without, of runs side by side."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    command = [str(script), *map(str, arguments)]
    plain, hooked = [], []
    for _ in range(rounds):
        plain.append(float(subprocess.check_output([sys.executable, *command])))
        with run_folder() as run, MeasuredScript(command, run) as measured:
            measured.start()
            for _ in measured.reports():
                pass
            hooked.append(float(measured.output.text()))
    ratios = sorted(with_hooks / without for with_hooks, without in zip(hooked, plain, strict=True))
    print(f"\n{name}: without hooks {median(plain) * 1e3:.3f} ms, with hooks {median(hooked) * 1e3:.3f} ms")
    print(f"with / without, {rounds} pairs of runs: median {median(ratios):.4f}, {ratios[0]:.4f} to {ratios[-1]:.4f}")


def print_headroom(folder: Path, seconds: float) -> None:
    """The promise, and what is reached."""
    os.chdir(folder)
    os.environ[OFFLINE_VARIABLE] = "1"
    data = folder / "datasets"
    ensure_stand_in(data)
    config = ExperimentConfig(batch_size=16, max_items=96, image_size=64, max_epochs=10_000, dataset="stand-in")
    (folder / "config.py").write_text(config.to_source())
    arguments = ["config.py", "--data", str(data), "--device", "cpu"]

    def measured(script: Path) -> Measurement:
        return measure(str(script), arguments, seconds, lambda _: None)

    promised = measured(SOLUTIONS / "part1.py")
    source = (SOLUTIONS / "part5.py").read_text()
    print(f"\n{'':24}{'samples/s':>10}" + "".join(f"{phase:>21}" for phase in Phase) + "   (ms a step)")
    print_row("untouched", promised.steps)
    print_row("  from memory: promised", promised.headroom)
    for workers in (0, 1, 2, 8):
        script = folder / f"workers{workers}.py"
        script.write_text(with_workers(source, workers))
        measured(script)  # fills the cache
        found = measured(script)
        print_row(f"part 5, {workers} workers", found.steps)
        print_row("  from memory", found.headroom)


def with_workers(source: str, workers: int) -> str:
    """The solution with another number of workers."""
    changed = source.replace("num_workers=8", f"num_workers={workers}")
    if workers == 0:
        changed = changed.replace("persistent_workers=True", "persistent_workers=False")
    assert changed != source or workers == 8
    return changed


def print_row(name: str, steps: MeasuredSteps | None) -> None:
    """Samples per second, and milliseconds a step in each phase."""
    if steps is None:
        print(f"{name:24}{'none':>10}")
        return
    phases = "".join(f"{steps.phases_s[phase] / steps.count * 1e3:21.1f}" for phase in Phase)
    print(f"{name:24}{steps.samples_per_s:10.1f}{phases}", flush=True)


if __name__ == "__main__":
    with plain_errors():
        main()
