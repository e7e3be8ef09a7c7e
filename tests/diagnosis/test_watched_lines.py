"""What a statement reads and writes, by its source."""

from pathlib import Path

import pytest

from workshop.diagnosis.watched_lines import carried, following, needed, watched_line


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("a = b + self.c.d", ("b", "self.c.d"), ("a",)),
        ("a, (self.b, *c) = f(x)", ("f", "x"), ("a", "self.b")),
        ("out[i] = model(seen[i, :2])", ("out", "i", "model", "seen[i, :2]", "seen"), ("out[i]",)),
        ("total += net.encode(x)", ("net.encode", "net", "x"), ("total",)),
        ("y = self.layer(x)", ("self.layer", "x"), ("y",)),
        ("y = [f(row, k) for row in rows]", ("f", "k", "rows"), ("y",)),
        ("y = lambda: x", (), ("y",)),
        ("print(f'{x:.1f}')", ("print", "x"), ()),
        ("for row in table:\n    f(row)", ("table",), ()),
        ("with f(x) as y:\n    g(y)", ("f", "x"), ()),
        ("if x > 1:\n    f(y)", ("x",), ()),
    ],
)
def test_what_a_statement_reads_and_writes(
    text: str, reads: tuple[str, ...], writes: tuple[str, ...], tmp_path: Path
) -> None:
    script = tmp_path / "mine.py"
    script.write_text(text)
    found = watched_line(str(script), 1)
    assert found
    assert (set(found.reads), found.writes, found.line, found.last) == (set(reads), writes, 1, 1)


def test_a_statement_of_several_lines_is_one(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("def f():\n    return g(\n        x,\n    )\n")
    found = watched_line(str(script), 2)
    assert found
    assert (found.line, found.last, found.writes) == (2, 4, ("return",))
    assert watched_line(str(script), 1) is None, "a definition does nothing"


@pytest.mark.parametrize(
    ("loop", "needed"),
    [
        ("for i in x:\n    h = cell(i, h)", {"h"}),
        ("for i in x:\n    y = cell(i, h)\n    h = y", {"h"}),
        ("for i in x:\n    y = f(i)\n    out = y", set()),
        ("for i in x:\n    total = total + f(i)", set()),
        ("for i in x:\n    total += f(i)", set()),
        ("for i in x:\n    out[i] = f(x[i])", set()),
        ("for i in x:\n    out.append(f(i))", set()),
    ],
)
def test_what_needs_the_run_before_is_known(loop: str, needed: set[str], tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(loop)
    assert carried(str(script), 2) == needed


def test_the_statement_behind_one_is_in_its_block(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("if a:\n    b()\n    c()\nd()\n")
    lines = [behind.lineno if (behind := following(str(script), line)) else None for line in (1, 2, 3, 4)]
    assert lines == [None, 3, None, None]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("torch.cdist(x, F.relu(y)).sum(-1)", {"x", "y"}),
        ("one_hot(x, 5).float()", {"x"}),
        ("x.square() + self.y.mean()", {"x", "x.square", "self.y", "self.y.mean"}),
        ("self.encode(x) + helper(x)", {"self", "self.encode", "helper", "x"}),
        ("torch.stack([table[i] for i in chosen])", {"i", "chosen", "table"}),
    ],
)
def test_what_must_be_known_to_tell_what_a_statement_is_given(line: str, names: set[str], tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    imports = "import math, torch\nimport torch.nn.functional as F\nfrom torch.nn.functional import one_hot\n"
    script.write_text(f"{imports}made = {line}\n")
    assert needed(str(script), 4) == names
