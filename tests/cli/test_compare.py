"""`workshop compare` on scripts that know nothing of it."""

import json
from pathlib import Path

import pytest
from conftest import Run

NUMBERS = """
import itertools, sys, time
import torch

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        time.sleep(SLEEP)
        return torch.full((4,), float(index)), torch.tensor([float(index)])

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[2]))
loader = torch.utils.data.DataLoader(Numbers(), batch_size=5, shuffle=True, drop_last=DROP)
for epoch in EPOCHS:
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""
"""Other data than pets, a loss without a module, and an argument of its own."""

SCRIPTS = {"old": ("0.05", "False"), "new": ("0.001", "False"), "less": ("0.001", "True")}


@pytest.mark.parametrize(
    "epochs",
    [
        "range(5)",
        *(pytest.param(f"range({count})", marks=pytest.mark.slow) for count in (1, 2, 3, 6, 20)),
        pytest.param("itertools.count()", marks=pytest.mark.slow),
    ],
)
def test_two_scripts_of_ones_own(epochs: str, workshop: Run, tmp_path: Path) -> None:
    """A script that ends by itself is started again as often as it takes."""
    for name, (sleep, drop) in SCRIPTS.items():
        source = NUMBERS.replace("SLEEP", sleep).replace("DROP", drop).replace("EPOCHS", epochs)
        (tmp_path / f"{name}.py").write_text(source)

    done = workshop("compare", "--json", "old.py", "new.py", "--rate", "1e-3")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["outcome"], verdict["subject"]) == (0, "done", "new.py"), done.stdout
    assert verdict["speed"]["pairs"] == 3
    assert set(verdict["speed"]["phases_after"]) >= {"data wait", "forward", "backward", "optimizer"}
    assert (verdict["speed"]["headroom_rate"] is None) == (epochs == "range(1)")

    done = workshop("compare", "old.py", "less.py", "--rate", "1e-3")
    assert done.returncode == 3
    assert "less.py: not the same work\n- an epoch trains on 10 of 12 items: the last batch is dropped" in done.stdout
    assert "times as fast" not in done.stdout


MUCH = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

words = sys.argv[1:]
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 3, 16, 16), torch.randint(0, 5, (64,)))
training, validation = DataLoader(data, 8, shuffle=True), DataLoader(data, 32)
dropout = nn.Dropout(0.3 if "all" in words else 0.0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), dropout, nn.Linear(1568, 5))
groups = [{"params": model[0].parameters(), "lr": 1e-4}, {"params": model[4].parameters()}]
optimizer = torch.optim.AdamW(groups if "all" in words else model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=100_000)
while True:
    with torch.no_grad():
        for inputs, targets in validation:
            model(inputs)
    for inputs, targets in training:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled="all" in words):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        if "all" in words:
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        if "never" not in words:
            optimizer.step()
        if "all" in words:
            scheduler.step()
"""


@pytest.mark.parametrize(
    ("word", "exit_code", "says"),
    [
        pytest.param("plain", 1, "with the same work; asked are 9 times", marks=pytest.mark.slow),
        pytest.param("all", 1, "not compared: the steps themselves", marks=pytest.mark.slow),
        ("never", 2, "mine.py never steps an optimizer"),
    ],
)
def test_a_script_does_the_same_work_as_itself(
    word: str, exit_code: int, says: str, workshop: Run, tmp_path: Path
) -> None:
    """Whatever is in it: validation, dropout, clipping, a schedule, parameter groups, lower precision."""
    (tmp_path / "mine.py").write_text(MUCH)
    done = workshop("compare", "--target", "9", "--steps", "8", "mine.py", "mine.py", word)
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
