"""Judges the line and the cause that a participant names as the fault of a script; the right ones are known."""

from workshop.course.answers.answer_check import AnswerCheck
from workshop.judge.reasons import ReasonKind
from workshop.judge.verdict import Verdict
from workshop.parts.case import Case


class FaultReason(ReasonKind):
    """What is said of a line and a cause that were named."""

    RIGHT = "line {line} is the one, and the cause is {cause}"
    OTHER_CAUSE = "line {line} is the one, but the cause is not {cause}"
    OTHER_LINE = "{cause} is the cause, but line {line} is not the one"
    OTHER_FAULT = "line {line} is not the one, and the cause is not {cause}"


def judge_line_and_cause(check: AnswerCheck) -> Verdict:
    """Ask for the line of the fault, numbered as in the untouched or as in the present script, and for its cause."""
    case, causes = check.part, check.question.causes
    assert isinstance(case, Case)
    expected = f"give the number of a line and a cause, such as 41:{causes[0]}; the causes are {', '.join(causes)}"
    match = check.answer_like(rf"(\d+)[\s:,]+({'|'.join(causes)})", expected)
    line, cause = int(match[1]), match[2]
    right_line = line in case.right_lines(case.untouched) | case.right_lines(check.script)
    right_cause = cause == case.cause
    kinds = (FaultReason.OTHER_FAULT, FaultReason.OTHER_LINE), (FaultReason.OTHER_CAUSE, FaultReason.RIGHT)
    found = kinds[right_line][right_cause](line=line, cause=cause)
    return check.right(found) if right_line and right_cause else check.wrong(found, f"workshop measure {check.command}")
