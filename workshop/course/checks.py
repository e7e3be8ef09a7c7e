"""Checks of parts: a participant's script is judged, or an answer, and the result is remembered."""

import importlib.metadata
import platform
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from workshop.course import kept_checks, kept_scripts, progress
from workshop.course.answers import AnswerCheck, Ask, judge_of
from workshop.course.kept_checks import KeptCheck
from workshop.course.scripts import existing, is_same_code
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.experiment import ExperimentConfig, load_config
from workshop.judge.bench import Bench
from workshop.judge.contest import Contest, target_of
from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.verdict import NextStep, Outcome, Verdict, broken
from workshop.parts import Part, Question, ScriptChange, all_parts
from workshop.parts.case import Case
from workshop.pets.ensure import ensure_stand_in
from workshop.pets.layout import BASE_FOLDER, OFFLINE_VARIABLE
from workshop.probe.own_limits import usable_cores
from workshop.runs.check_queue import turn
from workshop.runs.script import Say
from workshop.runs.script_error import ScriptError, require_syntax

ITEMS = (39, 41, 43)
"""Items in an epoch of a check: one of these numbers; a script cannot know which. The data have 37 classes."""


class CheckReason(ReasonKind):
    """What is said of a change beside what the judge says, and what to do next."""

    NOTHING_CHANGED = "{script} is as it was at the beginning of the part: nothing has been changed yet"
    EDIT_NOW = "{0}; now {edit}, and check again"
    FILES_LEFT = "it leaves files behind: {files}; keep files under the config's cache_dir"
    QUESTION_OPEN = "a question is open: {question}"
    ANSWER_RIGHT = "your answer is right: {0}"
    CHANGE_IT = "change {script}, and type: {again}"
    CORRECT_IT = "correct this in {script}"
    CHECK_AGAIN = "{then}. To check again, type: {again}"
    GO_ON_MEANWHILE = "{0}. You can go on meanwhile: {onwards}"


def check(
    part: Part,
    script: Path,
    data: Path,
    config: Path | None = None,
    device: str | None = None,
    say: Say = print,
    ask: Ask | None = None,
    state: State | None = None,
    recording: Path | None = None,
    tell: Callable[[KeptCheck], None] | None = None,
    warn: Say | None = None,
) -> Verdict:
    """Judge a script by a part of the workshop, and remember the result beside the script.

    Args:
        part: the part, with its question, its change or both.
        script: the participant's.
        data: the data folder; the stand-in is drawn there if need be.
        config: a config file whose sizes and settings are to be used; but not how many items there are.
        device: the value for `--device`; None leaves the choice to the script.
        say: told of the progress.
        ask: puts a part's question to the participant; only a part that has one needs it.
        state: where the result is remembered; None for beside the script.
        recording: a recording, or a folder of them, by which an answer is judged; None for the usual folders.
        tell: told of the check as it is kept.
        warn: told at the beginning that it will take long, if the machine is busy; None for `say`.

    Raises:
        WorkshopError: there is no such script, config or data.
    """
    script = existing(script, part)
    if config and part.own_script:
        raise WorkshopError(f"{part.script} takes no config")
    began_s = time.monotonic()
    asker = _TimedAsk(ask) if ask else None
    state = state or State(script.parent)
    source = script.read_bytes()
    device = device or _device_of_ranks(part, say)
    run = config_of(part, config)
    sizes = f"{run.image_size} px" if config else "the part's own config"
    circumstances = f"{machine(device)}, {sizes}"
    contest = contest_of(part, script, run, data, device)
    try:
        verdict = _judge(part, contest, asker, say, warn, recording, state, circumstances)
    except ScriptError as error:
        verdict = broken(part.name, error)
    verdict = replace(verdict, has_race=part.has_race)
    progress.remember(state, part, verdict, source)
    case = part.case if isinstance(part, Case) else ""
    seconds = time.monotonic() - began_s - (asker.thought_s if asker else 0.0)
    kept = kept_checks.of_verdict(verdict, script, source, seconds, case, device)
    kept_checks.keep(state, kept)
    if verdict.outcome is Outcome.DONE and part.change:
        kept_scripts.keep_done(state, part, script, source)
    if tell:
        tell(kept)
    return _with_command(verdict, script, progress.next_part(state, after=part))


def _device_of_ranks(part: Part, say: Say) -> str | None:
    """Return the value for `--device` where a part trains on several ranks; None leaves the choice to the script."""
    if part.ranks == 1:
        return None
    say("looking for GPUs")  # torch takes seconds to load
    import torch

    return "cpu" if torch.cuda.device_count() < part.ranks else None  # a GPU takes one rank


class _TimedAsk:
    """Puts a question, and notes how long the answer takes: that time is not the check's."""

    def __init__(self, ask: Ask) -> None:
        self.ask, self.thought_s = ask, 0.0

    def __call__(self, question: str) -> str:
        """Return the answer."""
        asked_s = time.monotonic()
        try:
            return self.ask(question)
        finally:
            self.thought_s += time.monotonic() - asked_s


def _judge(
    part: Part,
    contest: Contest,
    ask: Ask | None,
    say: Say,
    warn: Say | None,
    recording: Path | None,
    state: State,
    circumstances: str,
) -> Verdict:
    """Judge the answer to a part's question, if it has one, and then the change that it asks for, if it does."""
    answered: tuple[Reason, ...] = ()
    # Where there is something to change as well, an answer is judged if there is one: it takes no time.
    if part.question and (ask or not part.change):
        asked = AnswerCheck(part, part.question, contest.candidate, ask, contest.script, say, recording)
        verdict = judge_of(part.question.answered_by)(asked)
        if verdict.outcome is not Outcome.DONE:
            return verdict
        state.put(asked.answered, "parts", part.name, "answer")
        if not part.change:
            return verdict
        right, *others = verdict.reasons  # others may say that the machine was busy
        answered = (CheckReason.ANSWER_RIGHT(right), *others)
    require_syntax(contest.candidate)  # before any data are made
    if any(is_same_code(contest.candidate, start) for start in (part.untouched, part.beginning)):
        verdict = _nothing_changed(part, contest.candidate, answered)
    else:
        with turn(say), Bench(contest, say, warn) as bench, _calibrated(bench, part, state, circumstances):
            try:
                verdict = part.check(bench)
                left = _files_left(*bench.ledgers)
                verdict = replace(verdict, reasons=(*verdict.reasons, *left, *answered))
            except ScriptError as error:
                verdict = broken(part.name, error)
            verdict = replace(verdict, machine=bench.load.end())
    if part.question and state.get("parts", part.name, "answer") is None:
        return _with_open_question(verdict, part, part.question)
    return replace(verdict, answered=part.question is not None)


def _nothing_changed(part: Part, script: Path, answered: tuple[Reason, ...]) -> Verdict:
    nothing, then = CheckReason.NOTHING_CHANGED(script=script.name), NextStep((f"workshop show {part.name}",))
    if answered and part.question:
        nothing = CheckReason.EDIT_NOW(nothing, edit=part.question.edit or "fix it")
        again = f"workshop check {part.name}"
        then = NextStep((again,), CheckReason.CHANGE_IT(script=script.name, again=again))
    return Verdict(part.name, Outcome.NOT_YET, (*answered, nothing), next=then)


@contextmanager
def _calibrated(bench: Bench, part: Part, state: State, circumstances: str) -> Iterator[None]:
    """Measure only once what the solution and the original reach here."""
    known, memory = (state.get("calibration", circumstances, name) for name in (part.name, f"{part.name} memory"))
    bench.solution_ratio = known if isinstance(known, float) else None
    bench.original_bytes = memory if isinstance(memory, int) else None
    try:
        yield
    finally:
        if bench.solution_ratio != known:
            state.put(bench.solution_ratio, "calibration", circumstances, part.name)
        if bench.original_bytes not in (None, memory):
            state.put(bench.original_bytes, "calibration", circumstances, f"{part.name} memory")


def _files_left(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Yield which files the candidate leaves behind, if there are any."""
    if files := sorted(set(candidate.files) - set(original.files)):
        more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
        yield CheckReason.FILES_LEFT(files=f"{files[0]}{more}")


def contest_of(part: Part, script: Path, config: ExperimentConfig, data: Path, device: str | None) -> Contest:
    """Return how a part has a script run beside its original, with a config if the script takes one."""
    on_device = ["--device", device] if device else []
    original, change = part.original_script, part.change or ScriptChange()
    names = {part.solution: "the fixed script", part.untouched: "the untouched script"}
    contest = Contest(
        subject=part.name,
        original=original,
        candidate=script,
        original_name=names.get(original, original.name),
        target=change.target if change.allowed is None else target_of(change.allowed),
        share=change.share,
        allowed=change.allowed,
        command=lambda script, _folder, _seed: [str(script), *part.arguments, *on_device],
        options={"epoch_steps": part.steps, "random_states": True, "environment": {"PYTHONUNBUFFERED": "1"}},
        ranks=part.ranks,
        is_part=True,
        solution=None if original == part.solution or change.allowed is not None else part.solution,
    )
    if isinstance(part, Case) and part.storage:
        options = {**contest.options, "photos": Path(part.storage)}
        return replace(contest, options=options, wasted_time_s=part.storage_s)
    if part.own_script:
        return contest
    data = data.resolve()  # as the files will be named when they are opened

    def command(script: Path, folder: Path, seed: int) -> list[str]:
        ensure_stand_in(data)
        path = folder / f"config-{seed}.py"
        path.write_text(replace(config, seed=seed, cache_dir=folder / "cache").to_source())
        options = ["--data", str(data), "--experiments", str(folder / "experiments")]
        return [str(script), str(path), *options, *on_device]

    items = config.max_items or 0
    options = {
        "epoch_steps": -(-items // config.batch_size),
        "photos": data / "stand-in" / BASE_FOLDER / "images",
        "environment": {"PYTHONUNBUFFERED": "1", OFFLINE_VARIABLE: "1"},
    }

    def with_sizes(**settings: Any) -> Contest:
        return contest_of(part, script, replace(config, **settings), data, device)

    contest = replace(contest, command=command, options=options, with_sizes=with_sizes)
    return replace(contest, items=items, wasted_time_s=config.wasted_time)


def config_of(part: Part, path: Path | None) -> ExperimentConfig:
    """Return the config of a check: few items, and more epochs than any check waits for."""
    config = load_config(path) if path else ExperimentConfig(image_size=64, batch_size=part.batch_size)
    return replace(config, dataset="stand-in", max_items=random.choice(ITEMS), max_epochs=10_000, wasted_time=0.1)


def machine(device: str | None) -> str:
    """Return what a measured speed holds for."""
    versions = "/".join(importlib.metadata.version(name) for name in ("profiling-workshop", "torch"))
    return f"{platform.node()}, {usable_cores()} cores, {device or 'any device'}, {versions}"


def _with_open_question(verdict: Verdict, part: Part, question: Question) -> Verdict:
    """Return the verdict on a change while the part's question is not answered; then the part is not done yet."""
    verdict = replace(verdict, reasons=(*verdict.reasons, CheckReason.QUESTION_OPEN(question=question.text)))
    nothing_changed = verdict.outcome is Outcome.NOT_YET and verdict.speed is None
    if verdict.outcome is not Outcome.DONE and not nothing_changed:
        return verdict
    accepted = verdict.outcome is Outcome.DONE
    then = NextStep((f"workshop check {part.name} --answer ANSWER",))
    if not accepted and str(verdict.next):
        then = verdict.next
    return replace(verdict, outcome=Outcome.NOT_YET, question_open=accepted, next=then)


def _with_command(verdict: Verdict, script: Path, following: Part | None) -> Verdict:
    """Return a verdict that names a command to type next, unless the part is done; `following` is the next open one."""
    if verdict.outcome is Outcome.DONE or verdict.next.commands:
        return verdict
    is_undecided = verdict.outcome is Outcome.UNDECIDED
    then = verdict.next.words or (None if is_undecided else CheckReason.CORRECT_IT(script=script.name))
    again, onwards = f"workshop check {verdict.subject}", f"workshop show {following.name}" if following else ""
    words = CheckReason.CHECK_AGAIN(then=str(then).rstrip("."), again=again) if then else None
    is_last = verdict.subject == all_parts()[-1].name  # what follows it then is a part that was left out
    if is_undecided and following and following.name != verdict.subject and not is_last:
        words = CheckReason.GO_ON_MEANWHILE(words or again, onwards=onwards)
        return replace(verdict, next=NextStep((again, onwards), words))
    return replace(verdict, next=NextStep((again,), words))
