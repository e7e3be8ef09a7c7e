"""`workshop compare --base`: real scripts in real repositories, raced against an earlier revision.

`tests/gate/test_workflow.py` has one that is slower."""

import json
from pathlib import Path

import pytest
from conftest import Run
from repositories import commit, repository

DATA = """
import time
import torch

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((16,), float(index)) / 40, torch.tensor([float(index)]) / 40
"""
TRAIN = """
import sys
from pathlib import Path
import torch
from data import Numbers

Path("datasets/photos.txt").read_text()
torch.manual_seed(0)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, shuffle=True)
while True:
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A script in a repository, with data that are not in git; commands run in this folder."""
    repository(tmp_path, train=TRAIN, data=DATA)
    (tmp_path / ".git/info/exclude").write_text("datasets/\n*.json\n*.md\n*.sarif\n")
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/photos.txt").write_text("a photo")
    return tmp_path


@pytest.mark.acceptance
def test_what_is_faster_is_said(workshop: Run, tree: Path) -> None:
    commit(tree, data=DATA.replace("0.005", "0.0005"))
    done = workshop("compare", "--base", "HEAD~1", "--json", "train.py")
    found = json.loads(done.stdout)
    assert (done.returncode, found["words"], found["lines"]) == (0, "faster", []), done.stdout
    assert "x faster than train.py of HEAD~1" in found["reasons"][0]


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        pytest.param("data", "return 40", "return 39", marks=pytest.mark.slow, id="an item less in an epoch"),
        pytest.param("train", "lr=1e-3", "lr=1e-2", marks=pytest.mark.acceptance, id="a larger step"),
        pytest.param(
            "train",
            "model(inputs)",
            "torch.autocast('cpu', torch.bfloat16)(model)(inputs).float()",
            marks=pytest.mark.acceptance,
            id="lower precision",
        ),
        pytest.param(
            "train",
            "        optimizer.zero_grad",
            "        inputs, targets = inputs[1:], targets[1:]\n        optimizer.zero_grad",
            marks=pytest.mark.acceptance,
            id="an item less in a step",
        ),
    ],
)
def test_other_work_is_refused(file: str, before: str, after: str, workshop: Run, tree: Path) -> None:
    source = {"train": TRAIN, "data": DATA}[file]
    assert before in source
    (tree / f"{file}.py").write_text(source.replace(before, after))
    done = workshop("compare", "--base", "HEAD", "train.py")
    assert done.returncode == 3, done.stdout
    assert "train.py: not the same work" in done.stdout


@pytest.mark.slow
def test_without_time_for_a_race_it_is_undecided(workshop: Run, tree: Path) -> None:
    commit(tree, data=DATA.replace("0.005", "0.1"))
    done = workshop("compare", "--base", "HEAD", "--budget", "10s", "train.py")
    assert done.returncode == 4, done.stdout
    assert "train.py: undecided" in done.stdout
    assert "--budget" in done.stdout


def test_it_is_said_which_version_crashed(workshop: Run, tree: Path) -> None:
    commit(tree, train="raise RuntimeError('oh')\n")
    commit(tree, train="raise RuntimeError('no')\n")
    done = workshop("compare", "--base", "HEAD~1", "train.py")
    assert done.returncode == 5, done.stdout
    assert "train.py: the base crashed" in done.stdout
    assert "RuntimeError: oh" in done.stdout


@pytest.mark.slow
def test_a_working_tree_that_crashes_is_no_fault_of_the_base(workshop: Run, tree: Path) -> None:
    commit(tree, data="raise RuntimeError('oh')\n")
    done = workshop("compare", "--base", "HEAD~1", "train.py")
    assert done.returncode == 5, done.stdout
    assert "train.py: crashed" in done.stdout
