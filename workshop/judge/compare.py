"""Compares two training scripts of anybody's own."""

from pathlib import Path

from workshop.judge.bench import Bench
from workshop.judge.contest import Contest
from workshop.judge.verdict import Verdict, broken
from workshop.processes.script import Say, ScriptError


def compare(old: Path, new: Path, arguments: list[str], target: float, steps: int | None, say: Say = print) -> Verdict:
    """Judge whether one script does the same work as another, and faster.

    Both run in the present folder with the same arguments, and write what they usually write.

    Args:
        old: the script that does the right work.
        new: the script that is judged.
        arguments: the arguments of both scripts.
        target: how many times as fast the new one must be.
        steps: the number of optimizer steps in an epoch; None for the length of the first DataLoader, 50 at most.
        say: told of the progress.
    """
    contest = Contest(
        subject=new.name,
        original=old.absolute(),
        candidate=new.absolute(),
        original_name=old.name,
        target=target,
        command=lambda script, _folder, _seed: [str(script), *arguments],
        work_folder=Path.cwd(),
        epoch_steps=steps,
    )
    with Bench(contest, say) as bench:
        try:
            return bench.judge()
        except ScriptError as error:
            return broken(new.name, error)
