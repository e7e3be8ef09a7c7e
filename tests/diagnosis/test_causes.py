"""The causes that `measure` knows: each is declared once, and the documents have a row for it."""

import re
from pathlib import Path

import pytest

from workshop.diagnosis import call_words, ranks
from workshop.diagnosis.causes import computing, data_wait, gpu, growing_steps, other_work
from workshop.parts import find_part
from workshop.probe.cause import Cause, CausePlace
from workshop.probe.trials import tried_causes

ROOT = Path(__file__).parents[2]
MODULES = (computing, data_wait, call_words, gpu, growing_steps, other_work, ranks)
SEEN = [each for module in MODULES for each in vars(module).values() if isinstance(each, Cause)]
TRIED = [each for each in tried_causes().values() if each.words]
FAULTS = {each.name for each in (*SEEN, *TRIED) if each.place is not CausePlace.OPTION}
OPTIONS = {each.name for each in TRIED if each.place is CausePlace.OPTION}


def named(text: str, rows_of: str = "") -> set[str]:
    """The causes in a text, or in the first column of the table that follows a line of it."""
    if rows_of:
        rows = text.partition(rows_of)[2].partition("\n\n")[0].splitlines()
        text = " ".join(row.split("|")[1] for row in rows if row.startswith("|"))
    return set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)*)`", text))


def test_the_tools_page_has_each_cause() -> None:
    text = (ROOT / "docs" / "tools.md").read_text()
    assert named(text, "### The causes that it knows\n\n") == FAULTS
    assert OPTIONS.isdisjoint(FAULTS)
    tried = text.partition("### What it tries\n")[2].partition("\n###")[0]
    assert named(tried) >= OPTIONS


def test_the_lesson_of_part_11_has_the_causes_of_its_scripts() -> None:
    part = find_part("part11")
    table = "| cause | what it is |\n"
    assert named((part.folder / "README.md").read_text(), table) == set(part.question.causes)
    assert set(part.question.causes) <= FAULTS


@pytest.mark.parametrize("cause", TRIED, ids=lambda each: each.name)
def test_the_words_of_what_is_tried_have_figures_that_are_known(cause: Cause) -> None:
    figures = {"about": "Net", "setting": "4 threads", "number": "4"}
    assert "{" not in cause.words.format(**figures)
