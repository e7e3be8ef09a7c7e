"""The tables of traces as a person reads them, on a terminal and a page: some rows, and their values as text."""

import re
from typing import Any, NamedTuple

from workshop.traces.breakdown import Row
from workshop.traces.tables import TABLES, Column

MAX_ROWS = 10
"""Rows of a table, at most, that are shown; JSON and CSV have all."""


class TextTable(NamedTuple):
    """A table whose cells are texts."""

    title: str
    columns: list[Column]
    rows: list[list[str]]
    left_out: int
    """The number of rows that are not shown."""


def text_table(name: str, rows: list[Row], several: bool) -> TextTable | None:
    """Return a table as text, with its first rows; None if it has only labels.

    Args:
        name: the name of the table.
        rows: its rows.
        several: whether they are of several ranks.
    """
    table = TABLES[name]
    columns = [column for column in table.columns if any(row.get(column.key) not in (None, 0.0) for row in rows)]
    if all(column.is_label for column in columns):
        return None
    columns = [Column("rank", "rank")] * several + columns
    shown = _of_each_rank(rows)
    body = [[_cell(row.get(column.key), column) for column in columns] for row in shown]
    return TextTable(table.title, columns, body, len(rows) - len(shown))


def _of_each_rank(rows: list[Row]) -> list[Row]:
    """Return the first rows of each rank, up to the same number, which is at least 3."""
    by_rank: dict[Any, list[Row]] = {}
    for row in rows:
        by_rank.setdefault(row.get("rank"), []).append(row)
    most = max(3, MAX_ROWS // max(len(by_rank), 1))
    return [row for each in by_rank.values() for row in each[:most]]


def _cell(value: Any, column: Column) -> str:
    if value is None:
        return ""
    if column.unit:
        return column.unit.text(value)
    return short(str(value)) if column.is_kernel else str(value)


def short(name: str) -> str:
    """Return a kernel's name without its types, which fill pages, but with the function that it applies."""
    if name.startswith(("Mem", "enumerate(")):
        return name
    functors = re.findall(r"\w*(?:[Ff]unctor|_op)\w*", name)
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "").replace("at::native::", "")
    plain = re.split(r"[<(]", plain)[0]
    return f"{plain}<{functors[-1]}>" if functors and functors[-1] not in plain else plain or name
