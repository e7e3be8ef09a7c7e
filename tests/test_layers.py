"""The house: imports go down the list of packages, never up, and the probe needs nothing but torch."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

WORKSHOP = Path(__file__).parents[1] / "workshop"

LAYERS = [
    {"__main__"},
    {"kernel"},
    {"cli"},
    {"agents"},
    {"room"},
    {"course"},
    {"parts"},
    {"tuning", "memory", "gate"},
    {"judge", "diagnosis"},
    {"recording"},
    {"pages", "reports"},
    {"traces"},
    {"profiles"},
    {"runs"},
    {"line_counts"},
    {"probe"},
    {"pets"},
    {"bad_node", "device", "experiment", "file_kind", "noise"},
    {"notebooks"},
    {"errors"},
    {"terminal"},
]
"""Each layer may import those below it; packages of the same layer do not import each other."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


HOLDING = ("body", "orelse", "finalbody", "handlers", "cases")
"""What of a statement holds other statements."""

KINDS = (ast.Import, ast.ImportFrom, ast.ClassDef)


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The imports and classes of a file, also those inside functions; an expression holds none."""
    found: list[ast.AST] = []
    to_do: list[Any] = [ast.parse(path.read_text())]
    while to_do:
        node = to_do.pop()
        found += [node] * isinstance(node, KINDS)
        to_do += (each for name in HOLDING for each in getattr(node, name, ()) if isinstance(each, ast.AST))
    return found


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the full name of each import of a file, also those inside functions."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (tuple(each.name.split(".")) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((*node.module.split("."), each.name) for each in node.names)


def test_imports_go_down_and_never_in_a_circle() -> None:
    modules = [path for path in WORKSHOP.rglob("*.py") if path != WORKSHOP / "__init__.py"]
    assert {path.relative_to(WORKSHOP).parts[0].removesuffix(".py") for path in modules} == LEVEL.keys()
    for path in modules:
        own = path.relative_to(WORKSHOP).parts[0].removesuffix(".py")
        for top, package, *_ in (name for name in imported(path) if name[0] == "workshop" and len(name) > 1):
            assert package == own or LEVEL[package] > LEVEL[own], f"{path} imports {top}.{package}"


def test_the_readme_lists_these_layers() -> None:
    _, _, table = (WORKSHOP.parent / "README.md").read_text().partition("Inside `workshop/`")
    rows = [set(re.findall(r"\]\(workshop/(\w+)(?:\.py)?\)", row)) for row in table.splitlines()]
    assert [row for row in rows if row] == LAYERS[1:], "the first layer is `python -m workshop`"


def test_the_probe_imports_the_standard_library_and_torch_alone() -> None:
    allowed = {*sys.stdlib_module_names, "torch"}
    for path in (WORKSHOP / "probe").rglob("*.py"):
        foreign = {name for name in imported(path) if name[0] not in allowed and name[:2] != ("workshop", "probe")}
        assert not foreign, path


def test_a_name_is_that_of_one_class_and_one_module() -> None:
    """So that a search finds one thing. Files outside of packages, such as the cases of part 11, are no modules."""
    files = [path for path in WORKSHOP.rglob("*.py") if "cases" not in path.relative_to(WORKSHOP).parts]
    classes = Counter(node.name for path in files for node in nodes(path) if isinstance(node, ast.ClassDef))
    modules = Counter(path.stem for path in files if path.stem != "__init__" and (path.parent / "__init__.py").exists())
    assert [name for name, count in (classes + modules).items() if count > 1] == []
