"""A contest: which two scripts are compared, how each is run, and how much faster the candidate must be."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workshop.judge.judged_script import JudgedScript
from workshop.processes.script import run_folder


@dataclass(frozen=True)
class Contest:
    """An original, and a candidate that must do the same work in less time."""

    subject: str
    """What the verdict is about: a part, or the candidate's name."""
    original: Path
    candidate: Path
    original_name: str
    """The name of the original in verdicts, such as "the untouched script"."""
    target: float
    """The speedup that is asked for."""
    command: Callable[[Path, Path, int], list[str]]
    """Builds the command of a run from the script, the run's folder and a random seed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The other arguments of each `JudgedScript`."""
    ranks: int = 1
    """The number of processes that the candidate trains with."""
    items: int = 0
    """The number of items in an epoch; 0 if it is not known."""
    wasted_time_s: float | None = None
    """The seconds that each read of a photo must have slept; None where there is no such rule."""
    is_part: bool = False
    """Whether the original belongs to a part: its steps are known to be reproducible, and a participant waits for the
    verdict."""
    budget_s: float = 120.0
    """The time from the start to the verdict, if it is not the contest of a part."""
    solution: Path | None = None
    """A script that is known to be fast: it shows what speedup this machine allows."""

    @contextmanager
    def script(self, path: Path) -> Iterator[JudgedScript]:
        """Make a run of a script, not started yet, in a folder of its own; both are removed at the end."""
        with run_folder() as folder, self.run(path, folder) as script:
            yield script

    def run(self, path: Path, folder: Path, seed: int = 0) -> JudgedScript:
        """Make a run of a script, not started yet, in a folder where earlier runs may have left files."""
        return JudgedScript(self.command(path, folder, seed), folder, **self.options)
