"""What is tried and watched inside a script: a file for each cause, or for two that are seen in the same way.

A file declares its causes with what tries them, and is found by itself. The files import torch, so they are loaded only
when they are asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workshop.probe.cause import Moment, TriedCause
    from workshop.probe.event_file import EventFile
    from workshop.probe.trials.watcher import Watcher

_declared: dict[str, tuple[TriedCause, Callable[[EventFile], Watcher]]] = {}
"""The causes by their names, each with what begins to watch for it."""


def declare(watch: Callable[[EventFile], Watcher], *causes: TriedCause) -> None:
    """Have it known what tries these causes."""
    _declared.update({cause.name: (cause, watch) for cause in causes})


@cache
def tried_causes() -> dict[str, TriedCause]:
    """Return every cause that can be tried, by its name."""
    for each in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{each.name}")
    return {name: cause for name, (cause, _) in _declared.items()}


def causes_at(moment: Moment, is_compiled: bool = False) -> tuple[TriedCause, ...]:
    """Return the causes that are tried in a part of a measurement, with a model of torch.compile or another one."""
    known = tried_causes().values()
    return tuple(each for each in known if each.moment is moment and (each.of_compiled or not is_compiled))


def watchers_for(names: Iterable[str], events: EventFile) -> list[Watcher]:
    """Begin to watch for the causes of these names."""
    tried_causes()
    return [watch(events) for watch in dict.fromkeys(_declared[name][1] for name in names)]
