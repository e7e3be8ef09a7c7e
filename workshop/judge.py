"""The commands that judge: a part, two scripts of one's own, the workshop itself."""

import importlib.metadata
import os
import platform
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from workshop import progress
from workshop.errors import WorkshopError
from workshop.experiment import STAMP, ExperimentConfig, load_config
from workshop.harness.bench import Bench, PartBench, broken
from workshop.harness.child import Child, ScriptError
from workshop.harness.observation import Observation
from workshop.harness.ranks import RanksBench
from workshop.harness.trial import Trial
from workshop.harness.verdict import Outcome, Verdict
from workshop.parts import Part
from workshop.state import State

Say = Callable[[str], None]
Ask = Callable[[str], str]


def check(
    part: Part,
    script: Path,
    data: Path,
    config: Path | None = None,
    device: str | None = None,
    say: Say = print,
    ask: Ask | None = None,
    state: State | None = None,
) -> Verdict:
    """Judge a script by a part of the workshop, and remember the result beside the script.

    Args:
        part: what is asked.
        script: the participant's.
        data: the data folder; the stand-in is drawn there if need be.
        config: a config file whose sizes and settings are to be used; how many items there are, the part says.
        device: for `--device`; None leaves the choice to the script.
        say: told of the progress.
        ask: puts a part's question to the participant; only a part that has one needs it.
        state: where the result is remembered; None for beside the script.

    Raises:
        WorkshopError: there is no such script, config or data.
    """
    script = existing(script, part)
    if config and part.own_script:
        raise WorkshopError(f"{part.script} takes no config")
    trial = Trial(
        part=part,
        candidate=script,
        config=config_for(part, config),
        data=data.resolve(),  # as the files will be named when they are opened
        device=device,
    )
    state = state or State(script.parent)
    source = script.read_bytes()
    try:
        # Where there is something to change as well, an answer is judged if there is one: it takes no time.
        verdict = _judge_answer(trial, ask, say, state) if part.question and (ask or not part.changes) else None
        if part.changes and (verdict is None or verdict.outcome is Outcome.DONE):
            of_config = f"{trial.config.image_size} px" if config else "the part's own config"
            here = f"{machine(device)}, {of_config}"
            with RanksBench(trial, say) if part.ranks > 1 else PartBench(trial, state, here, say) as bench:
                verdict = part.check(bench)
            if part.question and state.get("parts", part.name, "answer") is None:
                verdict = _with_open_question(verdict, part)
        assert verdict  # a part that asks neither is none
    except ScriptError as error:
        verdict = broken(part.name, error)
    progress.remember(state, part, verdict, source)
    return verdict


def _judge_answer(trial: Trial, ask: Ask | None, say: Say, state: State) -> Verdict:
    """Of a part's question; a right one is remembered."""
    observation = Observation(trial, ask, say)
    verdict = trial.part.answer(observation)
    if verdict.outcome is Outcome.DONE:
        state.put(observation.said, "parts", trial.part.name, "answer")
    return verdict


def _with_open_question(verdict: Verdict, part: Part) -> Verdict:
    """Nobody has answered yet: then no change is enough."""
    verdict = replace(verdict, reasons=(*verdict.reasons, f"a question is open: {part.question}"))
    if verdict.outcome is not Outcome.DONE:
        return verdict
    return replace(verdict, outcome=Outcome.NOT_YET, next=f"workshop check {part.name} --answer ANSWER")


def compare(old: Path, new: Path, arguments: list[str], target: float, steps: int | None, say: Say = print) -> Verdict:
    """Judge by the same proof and the same race whether one script does the same work as another, and faster.

    Both run in the present folder with the same arguments, and write what they usually write.

    Args:
        old: the script that does the right work.
        new: the one that is judged.
        arguments: for both.
        target: how many times as fast the new one must be.
        steps: optimizer steps that count as an epoch; None for the length of the first DataLoader, 50 at most.
        say: told of the progress.

    Raises:
        WorkshopError: there is no such script.
    """
    first, second = (
        Child([str(existing(script)), *arguments], Path("/nonexistent"), steps, work=Path.cwd())
        for script in (old, new)
    )
    with Bench(new.name, first, second, target, say, old.name) as bench:
        try:
            bench.start()
            return bench.refusal() or bench.race()
        except ScriptError as error:
            return broken(new.name, error)


def config_for(part: Part, path: Path | None) -> ExperimentConfig:
    """The config of a check: few items, and more epochs than anybody has patience for."""
    own = load_config(path) if path else ExperimentConfig(image_size=64, batch_size=part.batch_size)
    return replace(own, dataset="stand-in", max_items=part.items, max_epochs=10_000, wasted_time=0.1)


def existing(script: Path, part: Part | None = None) -> Path:
    """The absolute path of a script.

    Raises:
        WorkshopError: it is not there.
    """
    if not script.is_file():
        if part and script == Path(part.script):
            raise WorkshopError(f"there is no {script} here; put it there with workshop start {part.name}")
        raise WorkshopError(f"there is no file {script.absolute()}; name your script with --script")
    return script.absolute()


def machine(device: str | None) -> str:
    """What a measured speed holds for."""
    versions = "/".join(importlib.metadata.version(name) for name in ("profiling-workshop", "torch"))
    return f"{platform.node()}, {os.cpu_count()} cores, {device or 'any device'}, {versions}"


def put(source: Path, script: Path) -> Path | None:
    """Put a copy of a script in the place of another one, which is kept beside it, with the date in its name.

    Returns:
        Where it was kept; None if there was none or it was the same.

    Raises:
        OSError: the folder cannot be written.
    """
    content = source.read_bytes()
    backup = None
    if script.exists():
        if script.read_bytes() == content:
            return None  # and a profile of it stays valid
        backup = _free(script.with_name(f"{script.stem}-{datetime.now():{STAMP}}{script.suffix}"))
        script.rename(backup)
    script.write_bytes(content)
    return backup


def _free(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free
