"""The workflow that `docs/ci.md` tells to copy: its commands, run in a repository as a pull request checks it out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import Once
from repositories import commit, git, repository

WORKFLOW = Path(__file__).parents[2] / "docs/gate-workflow.yml"

DATA = """
import time
import torch

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((8,), float(index)) / 32, torch.tensor([float(index)]) / 32
"""
TRAIN = """
from pathlib import Path
import torch
from data import Numbers

Path("datasets/photos.txt").read_text()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(10_000):
    for inputs, targets in torch.utils.data.DataLoader(Numbers(), batch_size=4, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""
SLOWER = DATA.replace("        return torch.full", "        time.sleep(0.05)\n        return torch.full")

MADE = """#!{python}
import pytest
from made_races import race_of
from workshop.cli.main import main
with pytest.MonkeyPatch.context() as patch:
    race_of(0.2, patch)
    patch.setattr("workshop.judge.laps.MAX_AT_ONCE", 2)
    patch.setattr("workshop.gate.grown_lines.MIN_PAIRS", 1)
    patch.setattr("workshop.gate.grown_lines.RUN_S", 2.0)
    patch.setattr("workshop.gate.grown_lines.MIN_SHARE_OF_GROWTH", 0.0)
    main()
"""
"""The command `workshop`, in which each race is decided by a few short pairs of a made ratio.

A line need not have a share of the growth that such a race claims. That of the pause is the largest on any machine.
"""


def steps(checkout: Path, event: str, commands: Path) -> list[subprocess.CompletedProcess[str]]:
    """Run the steps of the workflow that call something here, as a runner does; the others install and upload."""
    found = []
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    base = job["env"]["BASE"].replace("${{ github.base_ref }}", "main")
    path = os.pathsep.join([str(commands), os.environ["PATH"]])
    modules = os.pathsep.join(map(str, (WORKFLOW.parents[1], Path(__file__).parents[1])))
    variables = {"BASE": base, "GITHUB_STEP_SUMMARY": event, "PATH": path, "PYTHONPATH": modules}
    for step in job["steps"]:
        if "run" in step and "pip install" not in step["run"]:
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            environment = os.environ | variables
            found.append(subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True))
    return found


@pytest.fixture
def ran(once: Once) -> Path:
    """The folder of a pull request with a slower module, once its workflow has run."""

    def run(folder: Path) -> None:
        origin = repository(folder / "origin", train=TRAIN, data=DATA, **{"configs/short_config": "epochs = 1\n"})
        git(folder, "clone", "--quiet", str(origin), "checkout")
        checkout = folder / "checkout"
        (checkout / ".git/info/exclude").write_text("datasets/\n*.sarif\n*.md\n__pycache__\n")
        (checkout / "datasets").mkdir()
        (checkout / "datasets/photos.txt").write_text("a photo, which is not in git")
        git(checkout, "switch", "--quiet", "--create", "change")
        commit(checkout, data=SLOWER)
        with (checkout / "train.py").open("a") as file:
            file.write("# not committed\n")
        (folder / "bin").mkdir()
        (folder / "bin/workshop").write_text(MADE.format(python=sys.executable))
        (folder / "bin/workshop").chmod(0o755)
        race, summary = steps(checkout, str(folder / "summary.md"), folder / "bin")
        (folder / "race.json").write_text(json.dumps([race.returncode, race.stdout, race.stderr]))
        assert summary.returncode == 0
        (folder / "tree.txt").write_text("\n".join(git(checkout, *words) for words in LEFT))

    return once("workflow", run)


LEFT = (("status", "--porcelain"), ("worktree", "list"))
LINE = SLOWER.splitlines().index("        time.sleep(0.05)") + 1


@pytest.mark.slow
def test_a_pull_request_that_makes_a_step_slower_fails_and_marks_the_line(ran: Path) -> None:
    """Also where both versions of a module stand on the path."""
    code, said, errors = json.loads((ran / "race.json").read_text())
    assert code == 1, said + errors
    annotation, *_, whole = said.splitlines()  # on a busy machine, others may seem to have grown, by less
    assert annotation.startswith(f"::error file=data.py,line={LINE},title=workshop%3A slower-line::")
    assert "time.sleep(0.05)" in annotation
    assert "slower than train.py of origin/main" in whole
    assert "with changes in 1 file that are not committed" in whole


@pytest.mark.slow
def test_its_summary_and_what_it_uploads_name_the_same_line(ran: Path) -> None:
    assert f"`data.py:{LINE}`" in (ran / "summary.md").read_text()
    result, *_ = json.loads((ran / "checkout/gate.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": LINE}


@pytest.mark.slow
def test_it_leaves_the_working_tree_as_it_was(ran: Path) -> None:
    changed, worktree = (ran / "tree.txt").read_text().splitlines()
    assert changed == "M train.py"
    assert worktree.endswith("[change]")
