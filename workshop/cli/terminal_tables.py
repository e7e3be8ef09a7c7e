"""Tables for a terminal: of figures and bars, of states, and as plain text."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from workshop.cli.output import console

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_STYLES = dict.fromkeys(("ok", "complete", "done"), "green")
_STYLES |= dict.fromkeys(("warn", "absent"), "yellow") | dict.fromkeys(("fail", "incomplete"), "red")


def table(
    headings: Sequence[str], rows: "Iterable[Sequence[str | Text]]", right: Collection[int] = (), padding: int = 2
) -> "Table":
    """Return a table for the console; the numbers of its columns of figures, which are to the right, are `right`."""
    from rich.table import Table
    from rich.text import Text

    found = Table.grid(padding=(0, padding))
    if headings:
        found.add_row(*(Text(each, "bold") for each in headings))
    for row in rows:
        found.add_row(*(Text(each) if isinstance(each, str) else each for each in row))
    for number in right:
        found.columns[number].justify = "right"
    return found


def bar(length: float, longest: float, width: int = 20) -> "Text":
    """Return a bar in eighths of a character, so that small differences show."""
    from rich.text import Text

    eighths = round(min(length / longest, 1.0) * width * 8)
    return Text(("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]).ljust(width), "cyan")


def print_rows(rows: list[tuple[str, str, str, str]]) -> None:
    """Print a table of state, name and finding, with the remedy under the finding."""
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    found.add_column(no_wrap=True)
    found.add_column(no_wrap=True)
    found.add_column(overflow="fold")
    for state, name, text, remedy in rows:
        found.add_row(Text(state, _STYLES.get(state, "")), name, Text(f"{text}\n-> {remedy}" if remedy else text))
    console().print(found)


def plain_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = (), line: str = "  "
) -> str:
    """Return a table as text: the headers, a rule, and the rows, in columns as wide as their cells.

    The numbers of the columns of figures, which are to the right, are `right`; `line` stands between two columns.
    """
    cells = [[str(cell) for cell in row] for row in [headers, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = line.replace("|", "+").replace(" ", "-") if "|" in line else line
    lines = [
        line.join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], rule.join("-" * width for width in widths), *lines[1:]])
