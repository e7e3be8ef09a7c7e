"""The answer to a part's question: asked for, and judged by what was recorded, or by watching the script."""

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.judge.judged_script import JudgedScript
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.verdict import NextStep, Outcome, Verdict
from workshop.parts import Part, Question
from workshop.runs.load_beside import busy_note
from workshop.runs.script import Say

JUDGES = {
    "machine usage": "usage:judge_busiest",
    "line profile": "hot_line:judge_profiled",
    "py-spy recording": "hot_line:judge_recorded",
    "py-spy recording of the untouched script": "hot_line:judge_untouched",
    "trace": "traces:judge_phase",
    "traces of all ranks": "traces:judge_slow_rank",
    "line and cause": "hot_line:judge_fault",
}
"""The module and function that judges an answer, by the name that `part.toml` uses for `answered_by`.

Only the judge that is needed is imported: a check of part 3 reads no trace.
"""

MIN_OF_HOTTEST = 0.9
"""Share, at least, of the hottest one's time that a line or a phase takes which is as good an answer."""

Ask = Callable[[str], str]
"""A function that puts a question to the participant and returns the answer; called again if it cannot be one."""


class AnswerReason(ReasonKind):
    """What is said of any answer that rests on a recording."""

    BUSY_MACHINE = "{sentence}"


@dataclass
class AnswerCheck:
    """One check of an answer."""

    part: Part
    question: Question
    script: Path
    """The participant's script."""
    ask: Ask | None
    """Puts the question; None if nobody is there to answer."""
    run: Callable[[Path], AbstractContextManager[JudgedScript]]
    """Starts the script, to watch it."""
    say: Say
    """Is told of the progress."""
    recording: Path | None = None
    """Where the participant's recording is, a file or a folder; None for the usual folders."""
    answered: str = field(default="", init=False)
    """The answer, once it was given."""

    @property
    def command(self) -> str:
        """The script with its config, as it is typed."""
        return f"{self.script.name}{'' if self.part.own_script else ' configs/example_config.py'}"

    def answer(self, *choices: str) -> str:
        """Return the participant's answer: one of the choices, or where there are none, the number of a line.

        Raises:
            WorkshopError: it is neither, and there is nobody to ask again.
        """
        if choices:
            return self.answer_like("|".join(choices), f"choose one of {', '.join(choices)}")[0]
        return self.answer_like(r"(?:line )?(\d+)", "it takes the number of a line")[1]

    def answer_like(self, pattern: str, expected: str) -> re.Match[str]:
        """Return the participant's answer, in small letters, as a match of a pattern; else say what is expected.

        Raises:
            WorkshopError: it does not match, and there is nobody to ask again.
        """
        if self.ask is None:
            raise WorkshopError(f"{self.part.name} asks a question: {self.question.text}")
        self.answered = self.ask(self.question.text).strip().lower()
        while not (match := re.fullmatch(pattern, self.answered)):
            self.answered = self.ask(f"{self.answered!r} is no answer to this; {expected}").strip().lower()
        return match

    def right(self, *reasons: Reason) -> Verdict:
        """Return the verdict on a right answer."""
        return Verdict(self.part.name, Outcome.DONE, reasons)

    def not_yet(self, reason: Reason, *commands: str) -> Verdict:
        """Return the verdict on something that is missing, with what to type next."""
        return Verdict(self.part.name, Outcome.NOT_YET, (reason,), next=NextStep(commands))

    def wrong(self, reason: Reason, look: str) -> Verdict:
        """Return the verdict on a wrong answer; `look` is the command that shows where the right one can be seen."""
        return self.not_yet(reason, look, f"workshop check {self.part.name} --answer ANSWER")


def typed(path: Path) -> str:
    """Return a path as a person would type it here."""
    return min(str(path), os.path.relpath(path), key=len)


def with_note(verdict: Verdict, recording: Path) -> Verdict:
    """Return a verdict that rests on a recording, and says if the machine was busy as that was made."""
    note = busy_note(recording)
    return replace(verdict, reasons=(*verdict.reasons, AnswerReason.BUSY_MACHINE(sentence=note))) if note else verdict


def judge_of(answered_by: str) -> Callable[[AnswerCheck], Verdict]:
    """Return the function that judges an answer in the way that its question asks for."""
    module, _, name = JUDGES[answered_by].partition(":")
    judge: Callable[[AnswerCheck], Verdict] = getattr(import_module(f"{__name__}.{module}"), name)
    return judge
