"""Judges which line and which cause are named as the fault of a script in which it is known."""

from workshop.course.answers.question import Question
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts.case import Case


def judge_line_and_cause(question: Question) -> Verdict:
    """Ask for the line of the fault, in the script as it came or as it is now, and for its cause."""
    case = question.part
    assert isinstance(case, Case)
    causes = ", ".join(case.causes)
    expected = f"give the number of a line and a cause, such as 41:{case.causes[0]}; the causes are {causes}"
    match = question.answer_like(rf"(\d+)[\s:,]+({'|'.join(case.causes)})", expected)
    line, cause = int(match[1]), match[2]
    right_line = line in case.right_lines(case.untouched) | case.right_lines(question.script)
    if right_line and cause == case.cause:
        return question.verdict(Outcome.DONE, f"line {line} is the one, and the cause is {cause}")
    if right_line:
        return question.not_yet(f"line {line} is the one, but the cause is not {cause}")
    if cause == case.cause:
        return question.not_yet(f"{cause} is the cause, but line {line} is not the one")
    return question.not_yet(f"line {line} is not the one, and the cause is not {cause}")
