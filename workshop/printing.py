"""How the commands print: results to stdout, progress and questions to stderr, data as JSON."""

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1
STYLES = {
    "ok": "green",
    "complete": "green",
    "done": "green",
    "warn": "yellow",
    "absent": "yellow",
    "fail": "red",
    "incomplete": "red",
}


def say(text: str) -> None:
    """Progress goes to stderr: stdout is for the result."""
    print(text, file=sys.stderr, flush=True)


def ask(question: str) -> str:
    """Put a question to the person at the terminal.

    Raises:
        WorkshopError: there is nobody who could answer.
    """
    say(filled(question))
    try:
        return input("> ")
    except EOFError:
        raise WorkshopError("no answer; give it with --answer") from None


def filled(text: str) -> str:
    """A paragraph in lines that a terminal does not break in mid-word; in one line where there is no terminal."""
    line = " ".join(text.split())
    return textwrap.fill(line, shutil.get_terminal_size().columns) if sys.stdout.isatty() else line


def console() -> "Console":
    """For tables and colours. A pipe or a file has no width: what is cut into lines there can no longer be copied."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 1000)


def write_file(path: Path, text: str) -> None:
    """A file that was asked for.

    Raises:
        WorkshopError: its folder is not there.
        OSError: it cannot be written.
    """
    if not path.parent.is_dir():
        raise WorkshopError(f"there is no folder {path.parent} for {path.name}")
    path.write_text(text, encoding="utf-8")


def print_json(**fields: Any) -> None:
    """One object, whose fields stay what they are as long as `schema_version` does."""
    print(json.dumps({"schema_version": SCHEMA_VERSION} | fields, indent=2))


def print_rows(rows: list[tuple[str, str, str, str]]) -> None:
    """A table of state, name and finding, with the remedy under the finding."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for state, name, found, remedy in rows:
        finding = Text(found)
        if remedy:
            finding.append(f"\n-> {remedy}")
        table.add_row(Text(state, STYLES.get(state, "")), name, finding)
    console().print(table)


def print_diff(lines: list[str]) -> None:
    """Lines of a diff, in colour where there are colours."""
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    out = console()
    for line in lines:
        out.print(Text(line, styles.get(line[:1], "")), soft_wrap=True)


def print_lesson(markdown: str) -> None:
    """A text, laid out in a terminal, and as it is elsewhere."""
    if not sys.stdout.isatty():
        print(markdown)
        return
    from rich.markdown import Markdown

    console().print(Markdown(markdown))
