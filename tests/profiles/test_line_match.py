"""Statements are found again after random edits of real files, and never taken for others."""

import ast
import random
from pathlib import Path

import pytest

from workshop.profiles.line_match import Match, match
from workshop.profiles.statements import Source

WORKSHOP = Path(__file__).parents[2] / "workshop"
FILES = sorted(path for path in WORKSHOP.rglob("*.py") if path.stat().st_size > 3000)

MIN_EDITABLE = 10
"""A file with fewer lines that can be edited is left out, such as a table of other modules."""

Edited = list[tuple[int | None, str]]
"""The lines of a source after some edits, each with the number that it had, if it was there."""


def editable(source: Source) -> set[int]:
    """The lines that are a simple statement each, and not one of those that every function has."""
    found = {each.first for each in source.statements.values() if each.first == each.last and not each.comes_back}
    begin = ("@", '"', "'", "else", "return", "pass", "import", "from", "raise", "continue", "break")
    texts = {number: source.lines[number - 1].strip() for number in found}
    return {number for number, text in texts.items() if not text.startswith(begin) and not text.endswith(":")}


def edit(lines: Edited, simple: set[int], names: list[str], dice: random.Random) -> Edited:
    """One edit: a line inserted, deleted, moved or changed, or a function renamed."""
    place = dice.choice([number for number, (origin, _) in enumerate(lines) if origin in simple])
    origin, text = lines[place]
    indent = text[: len(text) - len(text.lstrip())]
    kind = dice.choice(["insert", "delete", "move", "change", "rename"])
    if kind == "insert":
        return [*lines[:place], (None, f"{indent}new_{dice.randrange(10**6)} = made(anew)"), *lines[place:]]
    if kind == "rename":
        old = f"def {dice.choice(names or ['none'])}("
        return [(origin, line.replace(old, old.replace("(", "_again("))) for origin, line in lines]
    if kind == "change":
        simple.discard(origin or 0)
        changed = f"{text} + 1" if "=" in text else text.replace("(", "(extra, ", 1)
        return [*lines[:place], (origin, changed), *lines[place + 1 :]]
    left = [*lines[:place], (None, f"{indent}pass"), *lines[place + 1 :]]
    if kind == "delete":
        return left
    to = [n for n, (o, line) in enumerate(left) if o in simple and line.startswith(indent) and line[len(indent)] != " "]
    to = [number for number in to if abs(number - place) > 1]
    where = dice.choice(to) if to else place
    return [*left[:where], (origin, text), *left[where:]]


def edited(path: Path, dice: random.Random) -> tuple[Source, Source, Edited]:
    """A real file, and what some edits have made of it, which still is Python."""
    before = Source(path.read_text())
    names = [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    while True:
        lines: Edited = list(enumerate(before.lines, start=1))
        simple = editable(before)
        for _ in range(dice.randint(1, 6)):
            lines = edit(lines, simple, names, dice)
        after = Source("\n".join(line for _, line in lines))
        if after.statements:
            return before, after, lines


@pytest.mark.parametrize(
    ("seed", "files"),
    [
        (0, 12),
        pytest.param(0, 50, marks=pytest.mark.slow),
        *(pytest.param(seed, 50, marks=pytest.mark.acceptance) for seed in range(1, 5)),
    ],
)
def test_random_edits_of_real_files(seed: int, files: int) -> None:
    dice = random.Random(seed)
    matched = there = 0
    for path in dice.choices(FILES, k=files):
        if len(editable(Source(path.read_text()))) < MIN_EDITABLE:
            continue
        before, after, lines = edited(path, dice)
        truth = {origin: number for number, (origin, _) in enumerate(lines, start=1)}
        found = match(before, after)
        for one in {each.first for each in before.statements.values()}:
            if one in found and before.lines[one - 1] != after.lines[found[one].first - 1]:
                assert found[one].first == truth.get(one), f"{path.name}:{one}: {before.lines[one - 1]}"
            elif one in found and one in truth:
                assert found[one].first == truth[one], f"{path.name}:{one}: {before.lines[one - 1]}"
            there += one in truth
            matched += one in found and one in truth
    assert matched / there > 0.99


BEFORE = """\
def main(items):
    total = 0
    for item in items:
        image = read(item)
        total += work(image)
    return total
"""


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (BEFORE, {n: Match(n, "same") for n in range(1, 7)}),
        ("# one more line\n" + BEFORE, {n: Match(n + 1, "same") for n in range(1, 7)}),
        (
            BEFORE.replace("read(item)", "read(item, cached=True)"),
            {n: Match(n, "changed" if n == 4 else "same") for n in range(1, 7)},
        ),
        (
            BEFORE.replace("        image = read(item)\n", "        image = read(\n            item\n        )\n"),
            {5: Match(7, "same")},
        ),
        (BEFORE.replace("def main", "def train"), {2: Match(2, "same"), 6: Match(6, "same")}),
        (
            "def load(item):\n    image = read(item)\n    return image\n\n\n"
            + BEFORE.replace("read(item)", "load(item)"),
            {4: Match(2, "moved"), 5: Match(10, "same")},
        ),
        ("def other():\n    return 1\n", {1: None, 4: None}),
    ],
)
def test_what_is_found_again(after: str, expected: dict[int, Match | None]) -> None:
    found = match(Source(BEFORE), Source(after))
    assert {number: found.get(number) for number in expected} == expected


def test_equal_lines_are_not_guessed() -> None:
    before = "def main():\n    step()\n    step()\n"
    found = match(Source(before), Source(before + "    step()\n"))
    assert set(found) == {1}
