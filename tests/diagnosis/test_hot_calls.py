"""What hot calls of a real training do, from the script to the words."""

from pathlib import Path

import pytest

from workshop.diagnosis.call_words import often, same, says
from workshop.diagnosis.hot_calls import HotCall
from workshop.diagnosis.samples import observations_of
from workshop.diagnosis.watched_lines import watched_line
from workshop.probe.messages import WarmUp, WatchLines
from workshop.runs.measured_script import staged_script
from workshop.runs.script import run_folder
from workshop.runs.staged_run import StagedRun

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Windows(Dataset):
    def __init__(self):
        self.table = torch.randn(200, 6)
    def __len__(self):
        return 64
    def __getitem__(self, i):
        table = (self.table - self.table.mean(0)) / self.table.std(0)
        return table[i]

policy, windows = nn.Linear(6, 2), Windows()
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
while True:
    for x in DataLoader(windows, 8, shuffle=True):
        chosen = []
        with torch.no_grad():
            for i in range(len(x)):
                for _ in range(3):
                    chosen.append(policy(x[i]).argmax())
        larger = x.repeat(100, 1)
        few = larger[:8]
        loss = policy(few).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(TRAINING.splitlines(), 1) if text in line)


@pytest.mark.slow
def test_what_the_lines_of_a_training_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "mine.py"
    script.write_text(TRAINING)
    texts = ("table = (", "chosen.append", "larger =", "few =", "loss.backward")
    lines = [watched_line(str(script), line_of(text)) for text in texts]
    with run_folder() as folder, staged_script(str(script), [], False, folder) as started:
        run = StagedRun(started)
        run.take(2)
        run.measure(WatchLines(tuple(filter(None, lines))), 0.2)
        run.go_to(WarmUp())
        seen = [HotCall(each) for each in observations_of(run).line_runs]
    table, chosen, larger, few, backward = seen
    assert (table.is_same_each_step, table.is_same_in_step, table.runs) == (True, True, 8)
    assert "8 times in each, this makes the same: `table` (float32 [200, 6], 4.8 KB). Make it once" in same(table)
    assert (chosen.is_on_rows, chosen.times, chosen.seen.with_gradients) == (True, 24, False)
    assert "24 times a step, each time on 1 of 8 entries of `x` (float32 [6], 24 B)" in often(chosen)[1]
    assert not any(each.is_same_each_step for each in (chosen, larger, few, backward))
    makes = ", and makes `larger` (float32 [800, 6], 19.2 KB)"
    assert says(larger) == ", on `x` (float32 [8, 6], 192 B, new each time)" + makes
    assert few.made[0].memory == larger.made[0].memory
