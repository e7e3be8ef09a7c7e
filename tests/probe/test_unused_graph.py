"""Graphs that nobody goes through, and graphs that somebody keeps."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.trials.call_use import CallUse
from workshop.probe.trials.kept_graphs import MAX_MARKS, GraphLives

STEPS = 7


@pytest.mark.parametrize("teaches", [True, False])
def test_a_teacher_whose_graph_nobody_goes_through(teaches: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    use = CallUse(EventFile(str(tmp_path)))
    teacher, student = nn.Sequential(nn.Linear(8, 64), nn.Dropout(), nn.Linear(64, 1)), nn.Linear(8, 1)
    plain_teacher = [each.clone() for each in teacher.parameters()]

    def called(module: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        use.before_forward(module, (inputs,), {})
        output = module(inputs)
        use.after_forward(module, output)
        return output

    for _ in range(STEPS):
        inputs = torch.randn(4, 8)
        taught = called(teacher, inputs)
        loss = (called(student, inputs) - (taught if not teaches else taught.detach())).square().mean()
        loss.backward()
        use.on_step_end(1)
    use.end()
    raced = read_observations(tmp_path, [os.getpid()]).raced
    assert [(each.name, each.about, each.error) for each in raced] == [("unused-graph", "module", "")] * teaches
    assert all(map(torch.equal, teacher.parameters(), plain_teacher))
    for each in raced:
        assert each.times == pytest.approx(1.0)
        assert each.changed_s > 0


@pytest.mark.parametrize(
    ("keeps", "kept", "place"),
    [("sum", STEPS, ""), ("list", STEPS, ", in losses,"), ("number", 0, "")],
)
def test_losses_that_are_kept_with_their_graph(keeps: str, kept: int, place: str, tmp_path: Path) -> None:
    lives, model, losses = GraphLives(EventFile(str(tmp_path))), nn.Linear(8, 1), []
    total = torch.zeros(())
    for _ in range(STEPS):
        loss = model(torch.randn(4, 8)).mean()
        lives.on_backward(loss)
        loss.backward()
        if keeps == "sum":
            total = total + loss
        losses.append(loss if keeps == "list" else loss.item())
    del loss
    lives.end()
    noted = read_observations(tmp_path, [os.getpid()]).noticed
    about = f"{kept} of {STEPS} watched backward passes (line {LINE})"
    assert [(each.about, each.setting) for each in noted.values()] == [(about, place)] * bool(kept)


LINE = test_losses_that_are_kept_with_their_graph.__code__.co_firstlineno + 9


def test_losses_are_watched_from_all_over_a_long_run(tmp_path: Path) -> None:
    lives, weight, history = GraphLives(EventFile(str(tmp_path))), torch.ones(1, requires_grad=True), []
    for _ in range(1000):
        loss = (weight * 2).sum()
        lives.on_backward(loss)
        history.append(loss)
    noted = read_observations(tmp_path, [os.getpid()]).noticed["kept-graphs"]
    assert noted.about.startswith(f"{MAX_MARKS} of {MAX_MARKS} "), "it is noted though no stage has ended"
