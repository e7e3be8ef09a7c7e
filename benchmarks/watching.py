"""What it costs a script to be watched by the judge: raced epochs, with and without, in pairs.

    python benchmarks/watching.py [--pairs 30] [--only NAME ...]

Each script is started twice: as `workshop check` and `workshop compare` start it, and by Python alone, with a hook that
only counts the optimizer's steps and waits after each epoch for a line on its standard input. The two train for an
epoch each, in turn, as in a race; in every tenth epoch, and at a random step, the judge has a step recorded. Both are
timed from outside, from the word to go on to the end of the epoch. A second row has the plain script race itself: it
tells how much of a difference is noise.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from machine import machine

from workshop.errors import plain_errors
from workshop.experiment import ExperimentConfig
from workshop.judge.judged_script import JudgedScript
from workshop.judge.laps import SAMPLED
from workshop.parts import SOLUTIONS
from workshop.pets.ensure import ensure_stand_in
from workshop.probe.messages import Proceed
from workshop.runs.script import run_folder

WARM_UP = 3
"""The number of epochs before the first pair."""

PACED = """
import runpy, sys
from torch.optim.optimizer import register_optimizer_step_post_hook

del sys.argv[0]
left = steps = int(sys.argv.pop())


def count(*_):
    global left
    left -= 1
    if not left:
        left = steps
        print("epoch", flush=True)
        sys.stdin.readline()


register_optimizer_step_post_hook(count)
runpy.run_path(sys.argv[0], run_name="__main__")
"""

NETWORK = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(512, {features}), torch.randn(512, 1))
model = nn.Sequential(nn.Linear({features}, {width}), nn.ReLU(), nn.Dropout(0.1), nn.Linear({width}, 1))
optimizer = torch.optim.AdamW(model.parameters())
while True:
    for inputs, targets in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""

TEXT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
text = torch.randint(0, 500, (256, 65))
embed = nn.Embedding(500, 128)
layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
model = nn.Sequential(embed, nn.TransformerEncoder(layer, 2), nn.Linear(128, 500))
optimizer = torch.optim.AdamW(model.parameters())
while True:
    for (words,) in DataLoader(TensorDataset(text), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        logits = model(words[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten()).backward()
        optimizer.step()
"""


@dataclass(frozen=True)
class Case:
    """A script to be watched."""

    name: str
    source: str
    steps: int
    """In an epoch."""
    is_picture: bool = False


CASES = (
    Case("a table, one hidden layer of 32", NETWORK.format(features=64, width=32), 32),
    Case("a table, one hidden layer of 2048", NETWORK.format(features=512, width=2048), 32),
    Case("text, a transformer of two layers", TEXT, 16),
    Case("pictures, part 3's solution", (SOLUTIONS / "part3.py").read_text(), 6, is_picture=True),
    Case("pictures, part 5's solution", (SOLUTIONS / "part5.py").read_text(), 6, is_picture=True),
)


def main() -> None:
    """Run the pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=30, help="of epochs (default: %(default)s)")
    parser.add_argument("--only", nargs="*", help="words of the names of the cases")
    args = parser.parse_args()

    print(machine())
    print(f"\n{'':36}{'an epoch':>12}{'watched / plain':>18}{'plain / plain':>18}")
    for case in CASES:
        if args.only and not any(word in case.name for word in args.only):
            continue
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            arguments = prepared(case, folder)
            script = stack.enter_context(run_folder())
            judged = stack.enter_context(JudgedScript(arguments, script, work_folder=folder, epoch_steps=case.steps))
            plain, other = (stack.enter_context(Paced(arguments, case.steps, folder)) for _ in range(2))
            watched = ratios(partial(watched_epoch, judged), plain.epoch, args.pairs)
            noise = ratios(other.epoch, plain.epoch, args.pairs)
            seconds = median(plain.seconds)
        print(f"{case.name:36}{seconds * 1e3:9.0f} ms{spread(watched):>18}{spread(noise):>18}", flush=True)


def prepared(case: Case, folder: Path) -> list[str]:
    """Write the script, and what it needs, and return how it is called."""
    (folder / "script.py").write_text(case.source)
    if not case.is_picture:
        return ["script.py"]
    ensure_stand_in(folder / "datasets")
    config = ExperimentConfig(batch_size=16, max_items=96, image_size=64, max_epochs=10_000, dataset="stand-in")
    (folder / "config.py").write_text(config.to_source())
    return ["script.py", "config.py", "--data", "datasets", "--device", "cpu"]


def watched_epoch(script: JudgedScript) -> float:
    """The seconds of an epoch as it is raced."""
    assert script.epoch_steps
    is_sampled = random.random() < SAMPLED
    return script.epoch(Proceed(random.randrange(script.epoch_steps) if is_sampled else None)).seconds


class Paced(ExitStack):
    """A script by itself, that goes on for one epoch at a time."""

    def __init__(self, arguments: list[str], steps: int, folder: Path) -> None:
        super().__init__()
        (folder / "paced.py").write_text(PACED)
        command = [sys.executable, "paced.py", *arguments, str(steps)]
        pipe = subprocess.PIPE
        self.log = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self.process = self.enter_context(
            subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self.log, text=True, cwd=folder, start_new_session=True
            )
        )
        self.callback(os.killpg, self.process.pid, signal.SIGKILL)
        self.seconds: list[float] = []
        self._wait()

    def _wait(self) -> None:
        """Wait for the end of an epoch, then stop the script and its workers, as the judge does."""
        assert self.process.stdout
        while (line := self.process.stdout.readline()) != "epoch\n":
            if not line:
                self.log.seek(0)
                raise SystemExit(f"a script ended by itself: {self.log.read().decode()}")
        os.killpg(self.process.pid, signal.SIGSTOP)

    def epoch(self) -> float:
        """The seconds until it says that the next epoch is over."""
        assert self.process.stdin
        os.killpg(self.process.pid, signal.SIGCONT)
        begin = time.perf_counter()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self._wait()
        self.seconds.append(time.perf_counter() - begin)
        return self.seconds[-1]


def ratios(one: Callable[[], float], other: Callable[[], float], pairs: int) -> list[float]:
    """Of the seconds of epochs in turn; which of the two goes first changes from pair to pair."""
    found = []
    for pair in range(WARM_UP + pairs):
        if pair % 2:
            seconds = one()
            ratio = seconds / other()
        else:
            seconds = other()
            ratio = one() / seconds
        found += [ratio] if pair >= WARM_UP else []
    return sorted(found)


def spread(found: list[float]) -> str:
    """The median, and the range of the middle half."""
    quarter = len(found) // 4
    return f"{median(found):.3f} ({found[quarter]:.2f}-{found[-1 - quarter]:.2f})"


if __name__ == "__main__":
    with plain_errors():
        main()
