"""What is tried and watched inside a script: a file for each cause, or for two that are seen in the same way.

A file declares its causes beside the `Watcher` that tries them, and is found by itself. The files import torch, so they
are loaded only when they are asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workshop.probe.cause import Moment, TriedCause
    from workshop.probe.event_file import EventFile
    from workshop.probe.trials.watcher import Watcher


@cache
def watchers() -> list[type[Watcher]]:
    """Return the classes that try the causes, each with its own."""
    from workshop.probe.trials.watcher import Watcher

    modules = [importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    things = dict.fromkeys(each for module in modules for each in vars(module).values() if isinstance(each, type))
    return [each for each in things if issubclass(each, Watcher) and vars(each).get("causes")]


@cache
def tried_causes() -> dict[str, TriedCause]:
    """Return every cause that can be tried, by its name."""
    return {cause.name: cause for watcher in watchers() for cause in watcher.causes}


def causes_at(moment: Moment) -> list[TriedCause]:
    """Return the causes that are tried in a part of a measurement."""
    return [each for each in tried_causes().values() if each.moment is moment]


def watchers_for(names: Iterable[str], events: EventFile) -> list[Watcher]:
    """Start what tries the causes of these names."""
    wanted = set(names)
    return [each(events) for each in watchers() if wanted.intersection(cause.name for cause in each.causes)]
