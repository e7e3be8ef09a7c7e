"""How the commands print: results to stdout, progress and questions to stderr, data as JSON or CSV."""

import csv
import json
import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workshop.errors import WorkshopError
from workshop.notebooks.cell_places import with_cells
from workshop.notebooks.cell_script import notes, require_notebook
from workshop.runs.again_and_again import again_and_again
from workshop.terminal import Count, columns_of, wrapped

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1
LOG_EVERY_S = 30.0
"""Seconds between two lines of a count where stderr is no terminal."""

CLEAR_LINE = "\r\x1b[K"
"""Moves the cursor to the beginning of its line and clears the line."""

_terminal = threading.Lock()
"""Held while anything is written that the progress line must not disturb."""


def say(text: str) -> None:
    """Print what is no result to stderr: progress, notes, questions. In a terminal, its lines are broken between words.

    Lines that are indented are commands, and stay as they are.
    """
    print(wrapped(text, columns_of(sys.stderr)), file=sys.stderr, flush=True)


@contextmanager
def progress_line(only_in_terminal: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows progress in a single line of a terminal, cleared at the end.

    The line counts the seconds since its text changed. Without a terminal, each text is a line of its own, a `Count` at
    most every half a minute; or all are left out (`only_in_terminal`).
    """
    if not sys.stderr.isatty():
        yield (lambda _: None) if only_in_terminal else _in_a_log()
        return
    text, since = "", 0.0

    def draw() -> None:
        waited_s = time.monotonic() - since
        seconds = f" (for {waited_s:.0f} s)" if waited_s >= 1 else ""
        shown = textwrap.shorten(text, shutil.get_terminal_size().columns - 1 - len(seconds), placeholder=" …")
        print(f"{CLEAR_LINE}{shown}{seconds}", end="", file=sys.stderr, flush=True)

    def show(new: str) -> None:
        nonlocal text, since
        with _terminal:
            text, since = new, time.monotonic()
            draw()

    def count() -> None:
        if text and _terminal.acquire(blocking=False):
            try:
                draw()
            finally:
                _terminal.release()

    try:
        with again_and_again(count, every_s=1.0):
            yield show
    finally:
        print(CLEAR_LINE, end="", file=sys.stderr, flush=True)


def _in_a_log() -> Callable[[str], None]:
    """Return a function that prints each text, but a count only if nothing was printed for half a minute."""
    printed_s = -LOG_EVERY_S

    def show(text: str) -> None:
        nonlocal printed_s
        now_s = time.monotonic()
        if not isinstance(text, Count) or now_s - printed_s >= LOG_EVERY_S:
            printed_s = now_s
            say(text)

    return show


def print_above(text: str) -> None:
    """Print a result where a progress line may be, which is drawn again below it."""
    with _above_progress():
        print(text, flush=True)


def warn(text: str) -> None:
    """Say what stays above the line of progress."""
    with _above_progress():
        say(text)


@contextmanager
def _above_progress() -> Iterator[None]:
    """Clear the line of progress, and keep it from being drawn, while something is written."""
    with _terminal:
        print(CLEAR_LINE * sys.stderr.isatty(), end="", file=sys.stderr, flush=True)
        yield


def tell_of_notebook(script: str) -> None:
    """Say what of a notebook is not run; nothing of a script of another kind.

    Raises:
        WorkshopError: it is a notebook without a cell that could be run, or cells were chosen and it is none.
    """
    require_notebook(script)
    for note in notes(Path(script)):
        say(note)


def commands(*lines: str) -> str:
    """Return commands to be typed, indented, one per line."""
    return "\n".join(f"    {line}" for line in lines)


def ask(question: str) -> str:
    """Put a question to the person at the terminal.

    Raises:
        WorkshopError: nobody can answer.
    """
    try:
        with _above_progress():
            say(question)
            return input("> ")
    except EOFError:
        raise WorkshopError("no answer; give it with --answer") from None


def given(answer: str) -> Callable[[str], str]:
    """Return a function that answers a question with the answer from the command line.

    When called again, it raises a WorkshopError with the question.
    """
    answers = [answer]

    def next_answer(question: str) -> str:
        if not answers:
            raise WorkshopError(question)
        return answers.pop()

    return next_answer


def filled(text: str, indent: str = "") -> str:
    """Return a text filled to the terminal's width; without a terminal, one line per paragraph.

    A paragraph whose lines are indented is code, and stays as it is. `indent` is put before every other line.
    """
    width = terminal_width()
    paragraphs = []
    for each in text.strip("\n").split("\n\n"):
        line = " ".join(each.split())
        paragraphs.append(each if each.startswith("    ") else wrapped(line, width, indent, indent))
    return "\n\n".join(paragraphs)


def terminal_width() -> int | None:
    """Return the number of columns of the terminal; None without a terminal."""
    return columns_of(sys.stdout)


def console() -> "Console":
    """Return a console for tables and colours."""
    from rich.console import Console

    no_width = 100_000  # a pipe or a file: lines broken there could not be copied, or read by a program
    return Console(highlight=False, width=None if sys.stdout.isatty() else terminal_width() or no_width)


def write_file(path: Path, text: str) -> None:
    """Write a file that the user asked for.

    Raises:
        WorkshopError: its folder does not exist.
        OSError: it cannot be written.
    """
    _require_folder(path)
    path.write_text(text, encoding="utf-8")


def require_writable(path: Path) -> None:
    """Fail now, as `write_file` would after minutes of measuring; what the file holds stays until then.

    Raises:
        WorkshopError: its folder does not exist.
        OSError: it cannot be written.
    """
    _require_folder(path)
    path.open("a").close()


def _require_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise WorkshopError(f"there is no folder {path.parent} for {path.name}")


def print_json(**fields: Any) -> None:
    """Print one object, whose fields keep their meaning as long as `schema_version` is the same."""
    print(json.dumps({"schema_version": SCHEMA_VERSION} | with_cells(fields), indent=2))


def print_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Print rows below a header line."""
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def print_diff(lines: list[str]) -> None:
    """Print the lines of a diff, in colour where there are colours."""
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        console().print(Text(line, styles.get(line[:1], "")), soft_wrap=True)


def print_lesson(markdown: str) -> None:
    """Print a lesson: laid out and paged in a terminal, as it is elsewhere."""
    if not sys.stdout.isatty():
        print(markdown)
        return
    from rich.markdown import Markdown

    # less shows colours, exits at once if the text is short, leaves its text on the screen, and says how to go on.
    os.environ.setdefault("LESS", "FRXPs?eq ends:space goes on, q ends.$")
    out = console()
    with out.pager(styles=out.color_system is not None):
        out.print(Markdown(_with_commands(markdown)))


def _with_commands(markdown: str) -> str:
    """Return a lesson with commands in place of its links, which a terminal cannot follow."""

    def command(link: re.Match[str]) -> str:
        text, path = link[1], link[2]
        if path == "..":
            return f"{text}: `workshop list`"
        if path.endswith(f"/{text.strip('`')}"):
            return text
        if path.startswith("http"):
            return f"{text} ({path})"
        if lesson := re.search(r"(part\d+)/README", path):
            return f"{text}: `workshop show {lesson[1]}`"
        if of_part := re.search(r"solutions/(part\d+)", path):
            return f"{text}: `workshop solution {of_part[1]}`"
        return f"{text} ({path.removeprefix('../../../')})"

    markdown, words = _without_references(markdown)
    *texts, end = re.sub(r"\[([^]]+)\]\(([^)]+)\)", command, markdown).strip().rpartition("\n\n")
    if markdown.strip().rpartition("\n\n")[2].startswith("["):  # links alone
        end = "\n".join(f"- {each}" for each in end.split(" · "))
    if words:
        end += f"\n- In the glossary: {', '.join(words)}. To read one: `workshop show {words[0]}`"
    return "".join([*texts, end])


def _without_references(markdown: str) -> tuple[str, list[str]]:
    """Return a lesson with the words that it links to the glossary in italics, and the names of their entries."""
    defined = re.compile(r"^\[([^]]+)\]: \S*glossary\.md#(\S+)\n?", re.M)
    anchors = dict(defined.findall(markdown))

    def italics(link: re.Match[str]) -> str:
        label = " ".join((link[2] or link[1]).split()).lower()
        return f"*{link[1]}*" if label in anchors else link[0]

    return re.sub(r"\[([^]]+)\](?:\[([^]]+)\])?(?!\()", italics, defined.sub("", markdown)), list(anchors.values())
