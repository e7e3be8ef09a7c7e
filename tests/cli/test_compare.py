"""`workshop compare` on scripts that know nothing of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Once, Run
from made_races import race_of

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

SCRIPTS = {"old": (1.0, "False"), "new": (0.25, "False"), "less": (0.25, "True")}


def write(one: str, other: str, epochs: str, folder: Path, sleep_s: float = 0.02) -> None:
    for name in (one, other):
        share, drop = SCRIPTS[name]
        source = NUMBERS.replace("SLEEP", str(share * sleep_s)).replace("DROP", drop).replace("EPOCHS", epochs)
        (folder / f"{name}.py").write_text(source)


@pytest.fixture
def judged(once: Once, workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The verdict on a script that does the same work and, in each pair of a made race, takes a fifth of the time."""
    race_of(5.0, monkeypatch)

    def judge(folder: Path) -> None:
        write("old", "new", "itertools.count()", tmp_path, 0.005)
        done = workshop("compare", "--json", "old.py", "new.py", "--rate", "1e-3")
        (folder / "verdict.json").write_text(done.stdout)
        (folder / "code.txt").write_text(str(done.returncode))

    folder = once("judged", judge)
    return json.loads((folder / "verdict.json").read_text()) | {"exit_code": int((folder / "code.txt").read_text())}


@pytest.mark.slow
def test_two_scripts_of_ones_own(judged: Any) -> None:
    assert (judged["exit_code"], judged["outcome"], judged["subject"]) == (0, "done", "new.py"), judged
    speed = judged["speed"]
    assert (speed["pairs"], speed["items"]) == (3, 12)
    assert speed["ratio"] == pytest.approx(5.0)
    assert set(speed["phases_after"]) >= {"data wait", "forward", "backward", "optimizer"}
    assert "headroom_rate" in speed, "which is only known on a quiet machine"


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("epochs", "sleep_s"),
    [
        ("itertools.count()", 0.02),
        # A long epoch is a pair by itself; of shorter ones a pair takes several, each with a start of the script.
        ("range(1)", 0.18),
        ("range(30)", 0.02),
    ],
)
def test_a_real_race(epochs: str, sleep_s: float, workshop: Run, tmp_path: Path) -> None:
    """A script that ends by itself is started again as often as it takes."""
    write("old", "new", epochs, tmp_path, sleep_s)
    done = workshop("compare", "--json", "old.py", "new.py", "--rate", "1e-3")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["outcome"], verdict["subject"]) == (0, "done", "new.py"), done.stdout
    assert verdict["speed"]["pairs"] >= 3
    assert (verdict["speed"]["headroom_rate"] is None) == (epochs == "range(1)")


@pytest.mark.acceptance
def test_the_budget_is_kept(workshop: Run, tmp_path: Path) -> None:
    """Long epochs are cut."""
    write("old", "new", "itertools.count()", tmp_path)
    for each in tmp_path.glob("*.py"):
        each.write_text(each.read_text().replace("return 12", "return 240"))
    done = workshop("compare", "--budget", "24", "old.py", "new.py", "--rate", "1e-3")
    told = re.search(r"old.py, cut to (\d+) of its 48 steps, took \d\.\d s: about (\d+) s in all", done.stderr)
    assert told, done.stderr
    assert (3 <= int(told[1]) < 24, int(told[2]) <= 24) == (True, True), "of 48 batches of 0.1 s"
    assert "watching what new.py does, for 2 epochs; about" in done.stderr


@pytest.mark.slow
def test_where_three_steps_take_too_long_that_is_said_at_once(workshop: Run, tmp_path: Path) -> None:
    write("old", "new", "itertools.count()", tmp_path, sleep_s=0.25)
    done = workshop("compare", "--budget", "10", "old.py", "new.py", "--rate", "1e-3")
    assert done.returncode == 4
    assert re.search(r"- the first epoch of old.py \(3 steps\) took .* s in all, and the budget is 10 s\n", done.stdout)
    assert re.search(r"Next: Allow it more time, such as --budget \d+0\.", done.stdout)


@pytest.mark.slow
def test_less_work_is_refused_before_anything_is_said_about_speed(workshop: Run, tmp_path: Path) -> None:
    write("old", "less", "range(5)", tmp_path, 0.005)
    done = workshop("compare", "old.py", "less.py", "--rate", "1e-3")
    assert done.returncode == 3
    assert "less.py: not the same work\n- an epoch trains on 10 of 12 items: the last batch is dropped" in done.stdout
    assert "speedup" not in done.stdout.lower()


GRAPH = """
import torch

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
features, labels = torch.randn(900, 16), torch.randint(0, 4, (900,))
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = model

    def forward(self, adjacency, features):
        return self.layer(PRODUCT)

net = Net()
while True:
    adjacency = (torch.rand(900, 900, generator=generator) < 0.005).float()FORMAT
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(adjacency, features), labels).backward()
    optimizer.step()
"""


@pytest.mark.acceptance
def test_a_matrix_that_becomes_sparse_is_the_same_work(workshop: Run, tmp_path: Path) -> None:
    """Even where the original multiplies such matrices, which differs in rounding alone."""
    dense, sparse = "adjacency @ adjacency @ features", "adjacency @ (adjacency @ features)"
    (tmp_path / "old.py").write_text(GRAPH.replace("PRODUCT", dense).replace("FORMAT", ""))
    (tmp_path / "new.py").write_text(GRAPH.replace("PRODUCT", sparse).replace("FORMAT", ".to_sparse_csr()"))
    done = workshop("compare", "--target", "1.1", "old.py", "new.py")
    assert done.returncode == 0, done.stdout
    assert "same work" in done.stdout


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
        pytest.param("plain", 1, "same work; target: 9x", marks=pytest.mark.acceptance),
        pytest.param("all", 1, "same work; target: 9x", marks=pytest.mark.slow),
        pytest.param("never", 2, "mine.py has no step that could be compared: process", marks=pytest.mark.slow),
    ],
)
def test_a_script_does_the_same_work_as_itself(
    word: str, exit_code: int, says: str, workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in it: validation, dropout, clipping, a schedule, parameter groups, lower precision."""
    race_of(1.0, monkeypatch)
    (tmp_path / "mine.py").write_text(MUCH)
    done = workshop("compare", "--target", "9", "--steps", "8", "mine.py", "mine.py", word)
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert says in done.stdout + done.stderr


BEGIN = """
import sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

words = sys.argv[0]

class Slow(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(7)
        self.inputs, self.targets = torch.randn(50, 64, generator=dice), torch.randint(5, (50,), generator=dice)
    def __len__(self):
        return 50
    def __getitem__(self, index):
        time.sleep(0.01 if "old" in words else 0.001)
        return self.inputs[index], self.targets[index]

torch.manual_seed(0)
loader = DataLoader(Slow(), 8, shuffle=True)
"""

SCHEDULE = """
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
while True:
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if "constant" not in words:
            scheduler.step()
        if "eval" in words:
            model.eval()
"""

GAN = """
generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))
discriminator = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(), nn.Linear(32, 1))
of_generator = torch.optim.Adam(generator.parameters(), lr=4e-4 if "rate" in words else 2e-4)
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
loss = nn.BCEWithLogitsLoss()
while True:
    for real, _ in loader:
        one, zero = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        of_discriminator.zero_grad()
        loss(discriminator(real), one).backward()
        fake = generator(torch.randn(len(real), 16))
        loss(discriminator(fake.detach()), zero).backward()
        of_discriminator.step()
        of_generator.zero_grad()
        loss(discriminator(fake), one).backward()
        if "idle" not in words:
            of_generator.step()
"""

MAPPING = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5))
    def forward(self, batch):
        return {"loss": nn.functional.cross_entropy(self.layers(batch["inputs"]), batch["targets"])}

model = Model()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    for inputs, targets in loader:
        optimizer.zero_grad()
        if "half" in words:
            inputs, targets = inputs[::2], targets[::2]
        model({"inputs": inputs, "targets": targets})["loss"].backward()
        optimizer.step()
"""


def of(script: str, new: str, exit_code: int, says: str, is_in_ci: bool = False) -> Any:
    return pytest.param(*(script, new, exit_code, says), marks=pytest.mark.slow if is_in_ci else pytest.mark.acceptance)


@pytest.mark.parametrize(
    ("script", "new", "exit_code", "says"),
    [
        of(SCHEDULE, "new", 0, "same work"),
        of(SCHEDULE, "constant", 3, "in step 4, the optimizer's lr is 0.1,", is_in_ci=True),
        of(SCHEDULE, "eval", 3, "of a sampled step"),
        of(GAN, "new", 0, "x over old.py"),
        of(GAN, "idle", 3, "another model's Adam (5,248 parameters) never steps"),
        of(GAN, "rate", 3, "the lr of another model's Adam (5,248 parameters) is 0.0004"),
        of(MAPPING, "new", 0, "x over old.py"),
        of(MAPPING, "half", 3, "batches have 4 items, the original's 8"),
    ],
)
def test_schedules_several_models_and_other_inputs(
    script: str, new: str, exit_code: int, says: str, workshop: Run, tmp_path: Path
) -> None:
    for name in ("old", new):
        (tmp_path / f"{name}.py").write_text(BEGIN + script)
    done = workshop("compare", "old.py", f"{new}.py")
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert says in " ".join(done.stdout.split())
