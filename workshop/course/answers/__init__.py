"""Judges the answer to a part's question, by what the participant has recorded or by watching the script."""

from collections.abc import Callable

from workshop.course.answers import hot_line, line_and_cause, traces, usage
from workshop.course.answers.answer_check import AnswerCheck
from workshop.judge.verdict import Verdict

JUDGES: dict[str, Callable[[AnswerCheck], Verdict]] = {
    "machine usage": usage.judge_busiest,
    "line profile": hot_line.judge_profiled,
    "py-spy recording": hot_line.judge_recorded,
    "py-spy recording of the untouched script": hot_line.judge_untouched,
    "trace": traces.judge_phase,
    "traces of all ranks": traces.judge_slow_rank,
    "line and cause": line_and_cause.judge_line_and_cause,
}
"""The ways to judge an answer, by the names that `part.toml` uses for `answered_by`."""
