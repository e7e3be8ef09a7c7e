"""Judges the line and the cause that a participant names as the fault of a script; the right ones are known."""

from workshop.course.answers.answer_check import AnswerCheck
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts.case import Case


def judge_line_and_cause(check: AnswerCheck) -> Verdict:
    """Ask for the line of the fault, numbered as in the untouched or as in the present script, and for its cause."""
    case, causes = check.part, check.question.causes
    assert isinstance(case, Case)
    expected = f"give the number of a line and a cause, such as 41:{causes[0]}; the causes are {', '.join(causes)}"
    match = check.answer_like(rf"(\d+)[\s:,]+({'|'.join(causes)})", expected)
    line, cause = int(match[1]), match[2]
    right_line = line in case.right_lines(case.untouched) | case.right_lines(check.script)
    if right_line and cause == case.cause:
        return check.verdict(Outcome.DONE, f"line {line} is the one, and the cause is {cause}")
    look = f"workshop measure {check.command}"
    if right_line:
        return check.wrong(f"line {line} is the one, but the cause is not {cause}", look)
    if cause == case.cause:
        return check.wrong(f"{cause} is the cause, but line {line} is not the one", look)
    return check.wrong(f"line {line} is not the one, and the cause is not {cause}", look)
