"""Judges the answer to a part's question, by what the participant has recorded or by watching the script."""

from collections.abc import Callable

from workshop.course.answers import line_profile, recording, traces, usage
from workshop.course.answers.question import Question
from workshop.judge.verdict import Verdict

JUDGES: dict[str, Callable[[Question], Verdict]] = {
    "machine usage": usage.judge,
    "line profile": line_profile.judge,
    "py-spy recording": recording.judge,
    "py-spy recording of the untouched script": recording.judge_of_untouched,
    "trace": traces.judge_phase,
    "traces of all ranks": traces.judge_slow_rank,
}
"""The ways to judge an answer, by the names that `part.toml` uses for `answered_by`."""


def judge(question: Question) -> Verdict:
    """Ask the question and judge the answer.

    Raises:
        WorkshopError: nobody is there to answer, or the answer is none that the question allows.
        ScriptError: the script broke while it was watched.
    """
    return JUDGES[question.part.answered_by](question)
