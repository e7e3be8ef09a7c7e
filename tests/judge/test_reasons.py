"""What becomes of a reason: its sentence, and what of it a room is told."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import workshop
from workshop.judge.proof import WorkReason
from workshop.judge.reasons import MASK, ReasonKind
from workshop.judge.transform_proof import TransformReason


def kinds() -> list[ReasonKind]:
    """Every kind that is declared in the workshop."""
    package = Path(workshop.__file__).parent
    for path in package.rglob("*.py"):
        if "(ReasonKind)" in path.read_text() and path.name != "reasons.py":
            importlib.import_module(".".join(("workshop", *path.relative_to(package).with_suffix("").parts)))

    def below(of: type[ReasonKind]) -> Iterator[ReasonKind]:
        for each in of.__subclasses__():
            yield from (each if each.__module__.startswith("workshop.") else ())

    return [*below(ReasonKind)]


def test_every_kind_has_a_name_of_its_own_and_words_without_an_end() -> None:
    found = kinds()
    assert len(found) > 150
    assert len({kind.label for kind in found}) == len(found)
    assert all(kind.words.isprintable() for kind in found)


@pytest.mark.parametrize("secret", ["/home/ada/secret.py", "KeyError: 'password'", 12345.678])
def test_no_word_but_those_of_the_kind_is_told(secret: object) -> None:
    for kind in kinds():
        names = [re.split(r"[.\[]", name)[0] for _, name, *_ in Formatter().parse(kind.words) if name]
        about = [secret] * sum(name.isdigit() for name in set(names))
        reason = kind(*about, **{name: secret for name in names if not name.isdigit()})
        words = "".join(text for text, *_ in Formatter().parse(kind.words))
        assert reason.told.replace(MASK, "") == words
        assert reason.told.count(MASK) == len(names)


def test_the_words_of_a_reason_in_another_are_told_too() -> None:
    added = TransformReason.ADDED("MyCrop", changed=8, pictures=9)
    unseen = TransformReason.MAY_REPLACE(added)
    assert str(unseen).startswith("MyCrop changes 8 of 9 pictures, in the original none; whether it replaces another ")
    assert unseen.told.startswith("… changes … of … pictures, in the original none; whether it replaces another ")
    assert [part.kind for part in unseen.parts] == [TransformReason.MAY_REPLACE, TransformReason.ADDED]


def test_reasons_are_the_same_whose_kinds_and_names_are() -> None:
    added = TransformReason.ADDED("MyCrop", changed=8, pictures=9)
    assert added.subject == TransformReason.ADDED("MyCrop", changed=3, pictures=4).subject
    assert added.subject != TransformReason.ADDED("JPEG", changed=8, pictures=9).subject
    assert added.subject != TransformReason.NOT_ON_ALL("MyCrop", seen=8, pictures=9).subject
    sums = (WorkReason.BACKWARD_OF_SUM(of()) for of in (WorkReason.OTHER_STEPS, WorkReason.OTHER_BACKWARDS))
    assert len({each.subject for each in sums}) == 2
