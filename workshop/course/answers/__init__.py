"""Judges the answer to a part's question, by what the participant has recorded or by watching the script."""

from collections.abc import Callable
from importlib import import_module

from workshop.course.answers.answer_check import AnswerCheck
from workshop.judge.verdict import Verdict

JUDGES = {
    "machine usage": "usage:judge_busiest",
    "line profile": "hot_line:judge_profiled",
    "py-spy recording": "hot_line:judge_recorded",
    "py-spy recording of the untouched script": "hot_line:judge_untouched",
    "trace": "traces:judge_phase",
    "traces of all ranks": "traces:judge_slow_rank",
    "line and cause": "line_and_cause:judge_line_and_cause",
}
"""The module and function that judges an answer, by the name that `part.toml` uses for `answered_by`.

Only the judge that is needed is imported: a check of part 3 reads no trace.
"""


def judge_of(answered_by: str) -> Callable[[AnswerCheck], Verdict]:
    """Return the function that judges an answer in the way that its question asks for."""
    module, _, name = JUDGES[answered_by].partition(":")
    judge: Callable[[AnswerCheck], Verdict] = getattr(import_module(f"{__name__}.{module}"), name)
    return judge
