"""The tables of `workshop py-spy-report` as text: with all columns, and narrow for a terminal."""

from workshop.cli.output import plain_table
from workshop.profiles.py_spy_report import COLUMNS, NOT_FOUND, ReportRow, SampleChange


def as_text(rows: list[ReportRow], width: int | None) -> str:
    """Return the rows with all columns side by side, or in two lines each if the terminal is too narrow.

    Args:
        rows: the rows of a table.
        width: the columns of the terminal; None without a terminal.
    """
    wide = plain_table(COLUMNS, [[row.as_dict()[column] for column in COLUMNS] for row in rows], line=" | ")
    if width is None or max(map(len, wide.splitlines())) <= width:
        return wide
    return "\n".join(_narrow(row, width) for row in rows)


def changes_as_text(changes: list[SampleChange], before: int, after: int, width: int | None) -> str:
    """Return the changes between two recordings with `before` and `after` samples, to fit `width` columns."""
    rows = [
        (f"{each.change:+d}", _counted(each.before, before), _counted(each.after, after), each.name, each.path)
        for each in changes
    ]
    wide = plain_table(SampleChange._fields, rows, right=(0, 1, 2), line=" | ")
    if width is None or max(map(len, wide.splitlines())) <= width:
        return wide
    narrow = [
        f"{change:>7}  {_fit(name, path, width - 9)}\n{'':9}{old} before, {new} after"
        for change, old, new, name, path in rows
    ]
    return "\n".join(narrow)


def _narrow(row: ReportRow, width: int) -> str:
    """The leaf in one line, and below it the library function that led there."""
    found = row.as_dict()
    share = f"{row.proportion:7.2%} {row.samples:7d}"
    lines = [_fit(f"{share}  {found['name']}", _place(found["path"], found["line"]), width)]
    name = found["library_function_name"]
    if name != NOT_FOUND and (found["name"], found["path"]) != (name, found["library_function_path"]):
        place = _place(found["library_function_path"], found["library_function_line"])
        lines.append(_fit(f"{' ' * len(share)}    of {name}", place, width))
    return "\n".join(lines)


def _place(path: str | int, line: str | int) -> str:
    return str(path) if str(line) == "-1" else f"{path}:{line}"


def _counted(samples: int, of: int) -> str:
    return f"{samples / of if of else 0:.2%} ({samples})"


def _fit(left: str, right: str, width: int) -> str:
    """Put both texts on a line; cut the beginning of `right` if there is no room."""
    room = width - len(left) - 2
    if len(right) > room:
        right = "…" + right[len(right) - max(room, 12) + 1 :]
    return f"{left}  {right}"[:width]
