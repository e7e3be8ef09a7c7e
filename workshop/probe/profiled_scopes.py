"""Scopes of `record_function` that outlive the profiler under which they were entered."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.profiler import record_function

from workshop.probe.replaced_function import replace_function


class ProfiledScopes:
    """Keeps scopes that were entered under one profiler from being left under another.

    torch would then write to the memory of the first, which is freed, and the process may crash.
    """

    def __init__(self) -> None:
        self._profilers_ended = 0
        self._entered_after: dict[int, int] = {}
        self._never_left: list[Any] = []

    def watch(self) -> Callable[[], None]:
        """Learn of each scope from now on; return what ends that."""
        enter, leave = record_function.__enter__, record_function.__exit__

        def entered(scope: Any) -> Any:
            self._entered_after[id(scope)] = self._profilers_ended
            return enter(scope)

        def left(scope: Any, *error: Any) -> Any:
            is_old = self._entered_after.pop(id(scope), self._profilers_ended) < self._profilers_ended
            if not (is_old and torch.autograd._profiler_enabled()):
                return leave(scope, *error)
            self._never_left.append(scope.record)  # if it were freed, it would be left
            return None

        replaced = ExitStack()
        replaced.callback(replace_function(record_function, "__enter__", entered))
        replaced.callback(replace_function(record_function, "__exit__", left))
        return replaced.close

    def on_profiler_end(self) -> None:
        """Remember that what is open now was entered under a profiler that has ended."""
        self._profilers_ended += 1
