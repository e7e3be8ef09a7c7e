"""The workflow that `docs/ci.md` tells to copy: its commands, run in a repository as a pull request checks it out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from repositories import commit, git, repository

WORKFLOW = Path(__file__).parents[2] / "docs/gate-workflow.yml"

TRAIN = """
import time
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
for epoch in range(10_000):
    for inputs, targets in torch.utils.data.DataLoader(data, batch_size=4, shuffle=True):
        time.sleep(0.02)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""
SLOWER = TRAIN.replace("        optimizer.zero_grad()\n", "        optimizer.zero_grad()\n        time.sleep(0.01)\n")


def steps(checkout: Path, event: str) -> list[subprocess.CompletedProcess[str]]:
    """Run the steps of the workflow that call something here, as a runner does; the others install and upload."""
    found = []
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    base = job["env"]["BASE"].replace("${{ github.base_ref }}", "main")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {"BASE": base, "GITHUB_STEP_SUMMARY": event, "PATH": path, "PYTHONPATH": str(WORKFLOW.parents[1])}
    for step in job["steps"]:
        if "run" in step and "pip install" not in step["run"]:
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            environment = os.environ | variables
            found.append(subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True))
    return found


@pytest.mark.slow
def test_a_pull_request_that_makes_a_step_slower_fails_and_marks_the_line(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", train=TRAIN, **{"configs/short_config": "epochs = 1\n"})
    git(tmp_path, "clone", "--quiet", str(origin), "checkout")
    checkout = tmp_path / "checkout"
    git(checkout, "switch", "--quiet", "--create", "change")
    commit(checkout, train=SLOWER)
    race, summary = steps(checkout, str(tmp_path / "summary.md"))
    assert race.returncode == 1, race.stdout + race.stderr
    line = SLOWER.splitlines().index("        time.sleep(0.01)") + 1
    assert f"file=train.py,line={line}" in race.stdout
    assert summary.returncode == 0
    assert f"train.py:{line}" in (tmp_path / "summary.md").read_text()
    results = json.loads((checkout / "gate.sarif").read_text())["runs"][0]["results"]
    assert line in [each["locations"][0]["physicalLocation"]["region"]["startLine"] for each in results]
