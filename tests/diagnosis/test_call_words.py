"""What is said of lines that do something in vain, from real runs of them."""

import inspect
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from workshop.diagnosis.call_words import wasted
from workshop.diagnosis.hot_calls import HotCalls
from workshop.diagnosis.samples import read_observations
from workshop.diagnosis.watched_lines import watched_line
from workshop.probe.event_file import EventFile
from workshop.probe.hot_lines import HotLines
from workshop.profiles.stacks import Frame


class Training:
    """Recalls states, saves its model, scores all that it has seen, and keeps the diagonal of what it makes."""

    def __init__(self, folder: Path) -> None:
        self.path, self.model, self.seen = folder / "last.pt", torch.nn.Linear(100, 100), np.zeros(8)

    def step(self) -> None:
        states = tuple(np.random.default_rng(0).random((32, 84), dtype=np.float32))
        recalled = torch.tensor(states)
        torch.save(self.model.state_dict(), self.path)
        self.seen = np.append(self.seen, recalled.sum(0).numpy())
        order = np.argsort(self.seen)
        whole, rows = torch.randn(16, 16, len(order) % 2 + 2), torch.arange(16)
        pairs = whole * 2.0
        length = len(order) + 1
        own = pairs[rows, rows]
        text = f"{own.sum()} {length}"
        self.path.with_suffix(".txt").write_text(text)


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")  # torch knows it, too
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("recalled = ", "32 arrays of `states` number by number: join them first, as in torch.from_numpy(numpy.stack("),
        ("torch.save", "It writes 4"),
        ("order = ", "`self.seen` is longer each time"),
        ("pairs = ", "keeps"),
        ("own = ", ""),
        ("text)", ""),
    ],
)
def test_what_a_line_does_in_vain(text: str, says: str, tmp_path: Path) -> None:
    source, first = inspect.getsourcelines(Training.step)
    numbers = [first + number for number in range(1, len(source))]
    lines = tuple(filter(None, (watched_line(__file__, number) for number in numbers)))
    training, watch = Training(tmp_path), HotLines(EventFile(str(tmp_path)), lines)
    for _ in range(9):
        training.step()
        watch.on_step_end(1)
    watch.end()
    calls = HotCalls(read_observations(tmp_path, [os.getpid()]))
    (line,) = (first + number for number, each in enumerate(source) if text in each)
    found = wasted(calls, Frame("step", __file__, line))
    assert says in found
    assert bool(says) == bool(found)
