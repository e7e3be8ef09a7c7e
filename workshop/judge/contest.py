"""A contest: which two scripts are compared, how each of them is run, and how much faster the candidate must be."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from workshop.judge.judged_script import JudgedScript
from workshop.processes.script import run_folder

Command = Callable[[Path, Path, int], list[str]]
"""Makes the command of a run, from the script, the run's folder and a random seed."""


@dataclass(frozen=True)
class Contest:
    """An original, which does the right work, and a candidate, which is to do the same work in less time."""

    subject: str
    """What the verdict is about: a part, or the candidate's name."""
    original: Path
    candidate: Path
    original_name: str
    """The name of the original in verdicts, such as "the untouched script"."""
    target: float
    """How many times as fast as the original the candidate must be."""
    command: Command
    work_folder: Path | None = None
    """The folder that the scripts run in; None for an empty one each."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the scripts, beside those of this process."""
    photos: Path | None = None
    """The folder whose files are the data, in each script's own folder if it is relative; None if reading them is of no
    interest."""
    budget_s: float | None = None
    """The time from the start of the scripts to the end of the race, for a person who waits; None for `LONG_BUDGET_S`
    for the race alone."""
    epoch_steps: int | None = None
    """The number of optimizer steps in an epoch; None for the length of the original's first DataLoader."""
    random_states: bool = False
    """Note the state of the CPU's random generator at each step, to count the numbers that were drawn."""
    items: int = 0
    """The number of items in an epoch, where it is known."""
    batch_size: int = 0
    wasted_time_s: float | None = None
    """The seconds that each read of a photo must have slept; None where there is no such rule."""
    recomputable: bool = False
    """Whether the original's steps are known to come out the same when they are recomputed."""
    solution: Path | None = None
    """A script that is known to be fast, to see what this machine can show."""
    known_solution_ratio: float | None = None
    """How many times as fast as the original the solution was on this machine, if that was ever measured."""
    keep_solution_ratio: Callable[[float], None] = lambda ratio: None
    """Called when it has been measured."""

    @contextmanager
    def script(self, path: Path) -> Iterator[JudgedScript]:
        """Make a run of a script, not started yet, in a folder of its own; in the end both are gone."""
        with run_folder() as folder, self.run(path, folder) as script:
            yield script

    def run(self, path: Path, folder: Path, seed: int = 0) -> JudgedScript:
        """Make a run of a script, not started yet, that goes on with what earlier runs have left in the folder."""
        return JudgedScript(
            self.command(path, folder, seed),
            folder,
            photos=self.photos,
            epoch_steps=self.epoch_steps,
            random_states=self.random_states,
            work_folder=self.work_folder,
            environment=self.environment,
        )
