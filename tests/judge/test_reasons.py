"""What becomes of a reason: its sentence, and what of it a room is told."""

import ast
import importlib
import re
from pathlib import Path
from string import Formatter

import pytest

import workshop
from workshop.judge.draw_proof import DrawReason
from workshop.judge.reasons import MASK, ReasonKind
from workshop.judge.work_proof import WorkReason

PACKAGE = Path(workshop.__file__).parent


def kinds() -> list[ReasonKind]:
    """Every kind that is declared in the workshop."""
    for path in PACKAGE.rglob("*.py"):
        if "(ReasonKind)" in path.read_text():
            name = ".".join(("workshop", *path.relative_to(PACKAGE).with_suffix("").parts))
            importlib.import_module(name.removesuffix(".__init__"))
    return [kind for of in ReasonKind.__subclasses__() if of.__module__.startswith("workshop.") for kind in of]


def fields_of(kind: ReasonKind) -> list[str]:
    return [re.split(r"[.\[]", name)[0] for _, name, *_ in Formatter().parse(kind.words) if name]


def test_every_kind_has_a_name_of_its_own_and_words_without_an_end() -> None:
    found = kinds()
    assert len(found) > 150
    assert len({kind.label for kind in found}) == len(found)
    assert all(kind.words.isprintable() for kind in found)


@pytest.mark.parametrize("secret", ["/home/ada/secret.py", "KeyError: 'password'", 12345.678])
def test_no_word_but_those_of_the_kind_is_told(secret: object) -> None:
    for kind in kinds():
        names = fields_of(kind)
        about = [secret] * sum(name.isdigit() for name in set(names))
        reason = kind(*about, **{name: secret for name in names if not name.isdigit()})
        words = "".join(text for text, *_ in Formatter().parse(kind.words))
        assert reason.told.replace(MASK, "") == words
        assert reason.told.count(MASK) == len(names)


def test_a_reason_is_made_with_the_figures_of_its_words() -> None:
    """Where a kind is named as it is called; else, where its sentence is asserted."""
    declared = {f"{type(kind).__name__}.{kind.name}": set(fields_of(kind)) for kind in kinds()}
    texts = {path: text for path in PACKAGE.rglob("*.py") if "Reason." in (text := path.read_text())}
    for path, text in texts.items():
        for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
            given = {keyword.arg for keyword in call.keywords} | set(map(str, range(len(call.args))))
            if (name := ast.unparse(call.func)) in declared and None not in given:
                starred = any(isinstance(argument, ast.Starred) for argument in call.args)
                assert starred or given == declared[name], f"{path}:{call.lineno}"


def test_the_words_of_a_reason_in_another_are_told_too() -> None:
    lower = WorkReason.AUTOCAST(where=WorkReason.IN_SOME_PASSES(count=3, passes=9))
    assert str(lower).startswith("in 3 of 9 passes the model runs in lower precision (autocast)")
    assert lower.told.startswith("in … of … passes the model runs in lower precision (autocast)")
    assert [part.kind for part in lower.parts] == [WorkReason.AUTOCAST, WorkReason.IN_SOME_PASSES]


def test_reasons_are_the_same_whose_kinds_and_names_are() -> None:
    chosen = DrawReason.CHOSEN("MyCrop", draws=9)
    assert chosen.subject == DrawReason.CHOSEN("MyCrop", draws=4).subject
    assert chosen.subject != DrawReason.CHOSEN("JPEG", draws=9).subject
    assert chosen.subject != DrawReason.KEPT("MyCrop", pictures=9).subject
    sums = (WorkReason.BACKWARD_OF_SUM(of()) for of in (WorkReason.OTHER_STEPS, WorkReason.OTHER_BACKWARDS))
    assert len({each.subject for each in sums}) == 2
