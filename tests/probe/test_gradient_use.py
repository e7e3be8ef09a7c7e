"""Gradients that nobody reads are found, and those that somebody does read, in whatever way, are left alone."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile, why_lost
from workshop.probe.observations import Trial
from workshop.probe.trials.gradient_use import GradientUse

STEPS = 8

Backward = Callable[..., None]
Loop = Callable[[Backward, Callable[[], None]], list[nn.Module]]


def layers(*sizes: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(before, after) for before, after in pairwise(sizes)))


def watched(loop: Loop, folder: Path) -> tuple[list[Trial], list[nn.Module]]:
    """What was tried in a loop, and its models."""
    use = GradientUse(EventFile(str(folder)))

    def backward(loss: torch.Tensor, *models: nn.Module, keep: bool = False) -> None:
        for each in models:
            use.before_forward(each, (), {})
        each = None  # what is tried is called by its name in the loop
        use.on_backward(loss)
        loss.backward(retain_graph=keep)
        use.after_backward()

    try:
        models = loop(backward, lambda: use.on_step_end(1))
    finally:
        use.end()
    assert "grad" not in vars(nn.Parameter)
    return read_observations(folder, [os.getpid()]).raced, models


def test_a_fault_of_what_the_script_itself_calls_does_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_read", "_clear"):
        monkeypatch.setattr(GradientUse, name, lambda *_: 1 / 0)
    found, models = watched(adversaries, tmp_path)
    assert not found
    assert all(torch.equal(*pair) for pair in zip(values(models), values(unwatched(adversaries)), strict=True))
    assert "ZeroDivisionError" in why_lost(tmp_path)


def values(models: list[nn.Module]) -> list[torch.Tensor]:
    return [parameter for model in models for parameter in model.parameters()]


def unwatched(loop: Loop) -> list[nn.Module]:
    return loop(lambda loss, *_, keep=False: loss.backward(retain_graph=keep), lambda: None)


def adversaries(backward: Backward, step_ends: Callable[[], None], detached: bool = False) -> list[nn.Module]:
    inventor, critic = layers(8, 256, 256, 16), layers(16, 4, 1)
    of_inventor, of_critic = (torch.optim.SGD(each.parameters(), lr=0.01) for each in (inventor, critic))
    for step in range(STEPS):
        fake = inventor(torch.randn(64, 8))
        of_critic.zero_grad(set_to_none=step % 2 == 0)
        backward(critic(fake.detach() if detached else fake).mean(), inventor, critic)
        of_critic.step()
        step_ends()
        of_inventor.zero_grad()
        for parameter in critic.parameters():
            parameter.requires_grad_(False)
        backward(critic(inventor(torch.randn(64, 8))).mean(), inventor, critic)
        critic.requires_grad_(True)
        of_inventor.step()
    return [inventor, critic]


def actor_and_critic(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    """As in DDPG, TD3 and SAC, and in a GAN's generator step: the actor learns through the critic."""
    actor, critic = layers(8, 32, 16), layers(16, 256, 256, 1)
    of_actor, of_critic = (torch.optim.SGD(each.parameters(), lr=0.01) for each in (actor, critic))
    for _ in range(STEPS):
        seen = torch.randn(64, 8)
        of_critic.zero_grad()
        backward(critic(actor(seen).detach()).square().mean(), critic)
        of_critic.step()
        of_actor.zero_grad()
        backward(critic(actor(seen)).mean(), actor, critic)
        of_actor.step()
        step_ends()
    return [actor, critic]


def prompt(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    """What learns is an embedding before a body, none of whose layers was frozen."""
    body, words = layers(64, 256, 256, 1), nn.Embedding(9, 64)
    optimizer = torch.optim.SGD(words.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        backward(body(words(torch.arange(9))).mean(), body, words)
        optimizer.step()
        step_ends()
    return [body, words]


def attack(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    """The gradient that is read is that of an input."""
    model = layers(64, 256, 1)
    for _ in range(STEPS):
        inputs = torch.randn(16, 64).requires_grad_()
        backward(model(inputs).mean(), model)
        assert inputs.grad is not None
        model.zero_grad()
        step_ends()
    return [model]


def frozen_by_the_optimizer(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    body, head = layers(8, 256, 256), layers(256, 1)
    optimizer = torch.optim.Adam(head.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        backward(head(body(torch.randn(64, 8))).mean(), body, head)
        optimizer.step()
        step_ends()
    return [body, head]


@pytest.mark.parametrize(
    ("loop", "name", "leads_on"),
    [
        (adversaries, "inventor", False),
        (frozen_by_the_optimizer, "body", False),
        (actor_and_critic, "critic", True),
        (prompt, "body", True),
        (attack, "model", True),
    ],
)
def test_what_nobody_reads(loop: Loop, name: str, leads_on: bool, tmp_path: Path) -> None:
    (trial,), models = watched(loop, tmp_path)
    assert (trial.name, trial.error, trial.about) == ("unused-gradients", "", name)
    assert trial.leads_on == leads_on
    assert trial.changed_s > 0
    assert trial.difference in (None, 0.0)
    assert [function for function, *_ in trial.stack][-2:] == [loop.__name__, "backward"]
    assert trial.times == pytest.approx(1.0, abs=0.5)
    for one, other in zip(models, unwatched(loop), strict=True):
        for watched_one, plain in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(watched_one, plain), "the training went on as without being watched"


def sharpness_aware(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    """The first gradients are read by hand, and then cleared."""
    model = layers(8, 64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        inputs = torch.randn(16, 8)
        backward(model(inputs).square().mean(), model)
        ascents = [0.05 * parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        for parameter, ascent in zip(model.parameters(), ascents, strict=True):
            parameter.data.add_(ascent)
        optimizer.zero_grad()
        backward(model(inputs).square().mean(), model)
        for parameter, ascent in zip(model.parameters(), ascents, strict=True):
            parameter.data.sub_(ascent)
        optimizer.step()
        optimizer.zero_grad()
        step_ends()
    return [model]


def one_seldom_steps(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    """Gradients pile up for an optimizer that has not stepped yet."""
    body, head = layers(8, 64, 64), layers(64, 1)
    of_head, of_body = (torch.optim.SGD(each.parameters(), lr=0.01) for each in (head, body))
    for _ in range(STEPS):
        of_head.zero_grad()
        backward(head(body(torch.randn(16, 8))).mean(), body, head)
        of_head.step()
        step_ends()
    of_body.step()
    return [body, head]


def clipped_together(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    """The norm of the gradients of the body decides how far the head steps."""
    body, head = layers(8, 64, 64), layers(64, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        body.zero_grad()
        backward(head(body(torch.randn(16, 8))).mean(), body, head)
        nn.utils.clip_grad_norm_([*body.parameters(), *head.parameters()], 0.1)
        optimizer.step()
        step_ends()
    return [body, head]


def detached(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    return adversaries(backward, step_ends, detached=True)


def two_losses(backward: Backward, step_ends: Callable[[], None], read: bool = False) -> list[nn.Module]:
    body, one, other = layers(8, 256, 256), layers(256, 1), layers(256, 1)
    optimizer = torch.optim.SGD([*body.parameters(), *one.parameters(), *other.parameters()], lr=0.01)
    for _ in range(STEPS):
        features = body(torch.randn(64, 8))
        optimizer.zero_grad()
        backward(one(features).mean(), body, keep=True)
        if read:
            assert all(parameter.grad is not None for parameter in body.parameters())
        backward(other(features).square().mean(), body)
        optimizer.step()
        step_ends()
    return [body, one, other]


def read_in_between(backward: Backward, step_ends: Callable[[], None]) -> list[nn.Module]:
    return two_losses(backward, step_ends, read=True)


@pytest.mark.parametrize("loop", [sharpness_aware, one_seldom_steps, clipped_together, detached, read_in_between])
def test_what_somebody_reads(loop: Loop, tmp_path: Path) -> None:
    assert watched(loop, tmp_path)[0] == []


def test_a_graph_that_is_gone_through_twice(tmp_path: Path) -> None:
    (trial,), models = watched(two_losses, tmp_path)
    assert (trial.name, trial.error) == ("graph-twice", "")
    assert trial.changed_s > 0
    first = two_losses.__code__.co_firstlineno + 6
    assert (trial.about, trial.stack[-2][2]) == (str(first), first + 3)
    assert all(
        torch.equal(one, other)
        for mine, plain in zip(models, unwatched(two_losses), strict=True)
        for one, other in zip(mine.parameters(), plain.parameters(), strict=True)
    )
