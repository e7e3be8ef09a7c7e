"""The tables of `workshop py-spy-report`: as the documents have them, narrow for a terminal, as JSON and as CSV."""

import csv
import json
import sys
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from workshop.profiles.hot_spots import COLUMNS, NOT_FOUND, Change, Row, Table


def wide(rows: list[Row]) -> str:
    """All columns side by side."""
    return tabulate([_columns(row) for row in rows], headers=COLUMNS, tablefmt="presto")


def narrow(rows: list[Row], width: int) -> str:
    """Two lines a row: the leaf, and below it the library function that led there."""
    lines = []
    for row in rows:
        found = row.as_dict()
        share = f"{row.proportion:7.2%} {row.samples:7d}"
        lines.append(_fit(f"{share}  {found['name']}", _place(found["path"], found["line"]), width))
        name = found["library_function_name"]
        if name != NOT_FOUND and (found["name"], found["path"]) != (name, found["library_function_path"]):
            place = _place(found["library_function_path"], found["library_function_line"])
            lines.append(_fit(f"{' ' * len(share)}    of {name}", place, width))
    return "\n".join(lines)


def in_terminal(rows: list[Row], width: int) -> str:
    """The wide table where it fits, the narrow one elsewhere."""
    table = wide(rows)
    return table if len(table.partition("\n")[0]) <= width else narrow(rows, width)


def changed(changes: list[Change], before: int, after: int) -> str:
    """What came and what went between two recordings with so many samples."""
    rows = [
        (f"{each.more:+d}", _counted(each.before, before), _counted(each.after, after), *each.function)
        for each in changes
    ]
    return tabulate(
        rows, headers=("change", "before", "after", "name", "path"), tablefmt="presto", colalign=["right"] * 3
    )


def print_json(rows: Sequence[dict[str, Any]]) -> None:
    """A list, as long as the table."""
    print(json.dumps(rows, indent=2))


def print_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """With a line of names."""
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def left_out(tables: list[Table]) -> str:
    """What of the recording the tables do not show; empty if they show all."""
    left_out, shown = (sum(getattr(table, name) for table in tables) for name in ("left_out", "samples"))
    if not left_out:
        return ""
    return (
        f"{left_out} of {shown + left_out} samples were in no function but in the body of a "
        "module, or before Python had begun, and are left out; --module-frames shows those in modules"
    )


def _columns(row: Row) -> list[str | int]:
    found = row.as_dict()
    return [found[column] for column in COLUMNS]


def _place(path: str | int, line: str | int) -> str:
    return str(path) if str(line) == "-1" else f"{path}:{line}"


def _counted(samples: int, of: int) -> str:
    return f"{samples / of if of else 0:.2%} ({samples})"


def _fit(left: str, right: str, width: int) -> str:
    """Two words on a line; the path loses its beginning if it must."""
    room = width - len(left) - 2
    if len(right) > room:
        right = "…" + right[len(right) - max(room, 12) + 1 :]
    return f"{left}  {right}"[:width]
