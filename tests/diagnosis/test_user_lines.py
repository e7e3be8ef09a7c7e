"""Which line is named, of all that are on a stack."""

import pytest

from workshop.diagnosis.user_lines import hottest, time_by_line, trunk_of
from workshop.profiles.stacks import Frame

MAIN, TRAIN, LOG = Frame("<module>", "train.py", 90), Frame("train", "train.py", 50), Frame("train", "train.py", 60)
SAVE, WRITE, SUM = Frame("save", "logs.py", 5), Frame("write", "logs.py", 20), Frame("write", "logs.py", 21)
MAKES, MADE = Frame("__getitem__", "data.py", 7), Frame("__init__", "data.py", 3)


@pytest.mark.parametrize(
    ("paths", "line"),
    [
        ({}, None),
        ({(): 3.0}, None),
        ({(MAIN, TRAIN): 1.0}, TRAIN),
        ({(MAIN, TRAIN, SAVE, WRITE): 9.0, (MAIN, TRAIN, SAVE): 1.0}, WRITE),
        ({(MAIN, TRAIN, SAVE, WRITE): 5.0, (MAIN, TRAIN, SAVE, SUM): 5.0}, SAVE),
        ({(MAKES, MADE): 9.0}, MAKES),
    ],
)
def test_the_deepest_line_that_holds_most_of_its_caller(
    paths: dict[tuple[Frame, ...], float], line: Frame | None
) -> None:
    found = hottest(paths.items())
    assert (found and found.frame) == line


def test_the_loop_is_left_for_the_heaviest_line_in_it() -> None:
    paths = {(MAIN, TRAIN, SAVE): 4.0, (MAIN, LOG): 3.5, (MAIN, Frame("train", "train.py", 70)): 2.5}
    plain = hottest(paths.items())
    assert plain
    assert plain.frame == MAIN
    found = hottest(paths.items(), trunk_of([(MAIN, TRAIN)]))
    assert found
    assert (found.frame, found.weight) == (SAVE, 4.0)
    assert found.holds((MAIN, TRAIN, SAVE, WRITE))
    assert not found.holds((MAIN, LOG))


def test_the_innermost_own_lines() -> None:
    assert time_by_line([((MAIN, TRAIN), 1.0), ((MAIN,), 2.0), ((), 4.0), ((TRAIN,), 0.5)]) == {TRAIN: 1.5, MAIN: 2.0}
