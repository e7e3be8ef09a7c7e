"""A part's question about a script, put to the participant."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from linecache import getline
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.judge.judged_script import JudgedScript
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import Part
from workshop.processes.script import Say
from workshop.profiles.line_profile import Function

AS_HOT = 0.9
"""A line, or a phase, that takes this share of the hottest one's time is as good an answer."""

Ask = Callable[[str], str]
"""A function that puts a question to the participant and returns the answer."""


class Question:
    """One check of an answer.

    Args:
        part: the part that asks.
        script: the participant's script.
        ask: puts the question; None if nobody is there to answer.
        run: starts the script, to watch it.
        say: told of the progress.

    Attributes:
        answered: the answer, once it was given.
    """

    def __init__(
        self,
        part: Part,
        script: Path,
        ask: Ask | None,
        run: Callable[[Path], AbstractContextManager[JudgedScript]],
        say: Say,
    ) -> None:
        self.part, self.script, self.ask, self.run, self.say = part, script, ask, run, say
        self.answered = ""

    def answer(self, *choices: str) -> str:
        """Return the participant's answer.

        Raises:
            WorkshopError: it is none of the choices, where there are some, or there is nobody to ask.
        """
        if self.ask is None:
            raise WorkshopError(f"{self.part.name} asks a question: {self.part.question}")
        self.answered = self.ask(self.part.question).strip().lower()
        if choices and self.answered not in choices:
            raise WorkshopError(f"{self.answered!r} is no answer to this; choose one of {', '.join(choices)}")
        return self.answered

    def verdict(self, outcome: Outcome, *reasons: str, next: str = "") -> Verdict:
        """Return a verdict on this part."""
        return Verdict(self.part.name, outcome, reasons, next=next)

    def not_yet(self, reason: str, next: str = "") -> Verdict:
        """Return the verdict on something that is missing, with what to do next."""
        return self.verdict(Outcome.NOT_YET, reason, next=next)

    def judge_line(self, function: Function, absent: str = "did not run in") -> Verdict:
        """Ask for the number of the hottest line of a function, and judge it.

        Args:
            function: the lines, with their times.
            absent: what is said of a line that is not among them.

        Raises:
            WorkshopError: the answer is not a number.
        """
        answer = self.answer()
        if not answer.isdecimal():
            raise WorkshopError(f"{answer!r} is not the number of a line")
        number, hottest = int(answer), function.hottest
        assert hottest  # who calls has looked
        if number not in {line.number for line in function.lines}:
            return self.not_yet(f"line {number} {absent} {function.name}")
        share = function.share(number)
        source = getline(str(function.file), number).strip()
        says = f"line {number} takes {share:.1%} of the time in {function.name}: {source}"
        if share >= AS_HOT * function.share(hottest.number):
            return self.verdict(Outcome.DONE, says)
        return self.not_yet(f"{says}; another line takes more")
