"""Hooks into the training of a test, and what they tell."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from workshop.probe.hooks import TrainingHooks
from workshop.probe.listener import Listener


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Race for the fewest rounds, and look at no object that is older than the test."""
    monkeypatch.setattr("workshop.probe.trials.trial_race.MAX_DURATION_S", 0.0)
    gc.freeze()
    yield
    gc.unfreeze()


class Log(Listener):
    """Writes down what it is told, by the names of its methods."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("on_", "before_", "after_")) and name != "on_begin":
            return lambda *about: self.told.append(f"{name}:{about[0]}" if name == "on_step_end" else name)
        return super().__getattribute__(name)


@pytest.fixture
def hooks() -> Iterator[TrainingHooks]:
    """Hooks, which are removed in the end."""
    hooks = TrainingHooks(Log())
    hooks.install()
    yield hooks
    hooks.loading.loaders.load_with(None)
    hooks.remove()


@pytest.fixture
def told(hooks: TrainingHooks) -> list[str]:
    """What the hooks have told so far."""
    return hooks.audience.listeners[0].told
