"""A contest: which two scripts are compared, how each is run, and how much faster the candidate must be."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workshop.judge.judged_script import JudgedScript
from workshop.judge.time_plan import MAX_EPOCHS
from workshop.notebooks.cell_script import runnable
from workshop.runs.script import run_folder

MIN_BUDGET_S = 10.0
"""Seconds, at least, of a budget: in less, nothing is decided."""

MIN_TARGET = 1.1
"""Speedup, at least, that a part asks for where its solution is slow: a script that gains nothing must not reach it."""


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
    """The speedup that is asked for; where there is a solution, the most that is: see `target_here`."""
    command: Callable[[Path, Path, int], list[str]]
    """Builds the command of a run from the script, the run's folder and a random seed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The other arguments of each `JudgedScript`."""
    options_of_original: Mapping[str, Any] = field(default_factory=dict)
    """Those that only the original has, beside the others."""
    allowed: float | None = None
    """The slowdown that is still fine, such as 0.05; the target follows from it: see `target_of`. None where a speedup
    is asked for."""
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
    share: float = 1.0
    """The share of the solution's speedup that is enough."""
    with_sizes: Callable[..., "Contest"] | None = None
    """Return the same contest with other settings of the config, given by their names; None without a config."""

    def target_here(self, solution_ratio: float | None) -> float:
        """Return the speedup that is asked for on a machine where the solution reaches this one, if that is known."""
        if solution_ratio is None:
            return self.target
        return min(self.target, max(MIN_TARGET, round(self.share * solution_ratio, 1)))

    @contextmanager
    def script(self, path: Path) -> Iterator[JudgedScript]:
        """Make a run of a script, not started yet, in a folder of its own; both are removed at the end."""
        with run_folder() as folder, self.run(path, folder) as script:
            yield script

    def run(self, path: Path, folder: Path, seed: int = 0) -> JudgedScript:
        """Make a run of a script, not started yet, in a folder where earlier runs may have left files."""
        more = self.options_of_original if path == self.original else {}
        return JudgedScript(self.command(path, folder, seed), folder, **{**self.options, **more})


def target_of(allowed: float) -> float:
    """Return the speedup, below 1, of a script that takes as much longer as is allowed: 0.05 for 5 %."""
    return 1 / (1 + allowed)


def of_two_scripts(
    old: Path, new: Path, arguments: Sequence[str], target: float, budget_s: float, steps: int | None = None
) -> Contest:
    """Return the contest of two scripts of any kind, which run in the present folder with the same arguments.

    `budget_s` is the time from the start to the verdict, and `steps` is the number of optimizer steps in an epoch; None
    for the length of the DataLoader.
    """
    return Contest(
        subject=new.name,
        original=old.absolute(),
        candidate=new.absolute(),
        original_name=old.name,
        target=target,
        command=lambda script, _folder, _seed: runnable([str(script), *arguments]),
        options={
            "work_folder": Path.cwd(),
            "epoch_steps": steps,
            "max_epoch_s": budget_s / MAX_EPOCHS,
        },
        budget_s=budget_s,
    )
