"""The small result that every format can show, and the formats in which others read it: GitHub, Markdown, SARIF."""

import html
import importlib.metadata
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class ReportedLine:
    """A line, and why it is slow."""

    file: str
    """The path, relative to the repository where it is inside; empty if no line is to blame."""
    line: int | None
    cause: str
    """A stable name, such as "slow-item"."""
    words: str
    """What was found, in a sentence or two."""
    gain: float | None = None
    """The speedup that fixing it could bring; None if that is not known."""
    name: str = ""
    """What people call the line, where that is not its file and number: that of a notebook's cell."""


@dataclass(frozen=True)
class Report:
    """What an instrument has found out."""

    subject: str
    """The script."""
    headline: str
    """The result in a few words."""
    level: Level
    cause: str
    """A stable name for the result as a whole, such as "slower-script"."""
    sentences: tuple[str, ...]
    """The result in whole, the most important first."""
    lines: tuple[ReportedLine, ...]
    file: str = ""
    """The path of the script, as that of a line; empty if it is not known."""


def in_repository(path: str) -> str:
    """Return a path relative to the top folder of the repository that it is in, with forward slashes.

    A path that is in no repository is relative to the current folder if it is inside, and else as it is.
    """
    if not path:
        return path
    real = Path(os.path.realpath(path))
    tops = [folder for folder in real.parents if (folder / ".git").exists()]
    for folder in [*tops[:1], Path(os.path.realpath("."))]:
        if real.is_relative_to(folder):
            return real.relative_to(folder).as_posix()
    return real.as_posix()


# Annotations, which GitHub shows at the file and line of a pull request:
# https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands

COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def github(report: Report) -> str:
    """Return a line for the log of a workflow for each line, and one for the result as a whole."""
    lines = [
        _annotation(report.level, _named(each), file=each.file, line=each.line, title=f"workshop: {each.cause}")
        for each in report.lines
    ]
    title = f"workshop: {report.subject}: {report.headline}"
    return "\n".join([*lines, _annotation(report.level, "\n".join(report.sentences), title=title)]) + "\n"


def _named(found: ReportedLine) -> str:
    """Return what was found, with the name of the line before it, if it has one."""
    return f"{found.name}: {found.words}" if found.name else found.words


def _annotation(level: Level, message: str, **properties: str | int | None) -> str:
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value)
    return f"::{COMMANDS[level]} {given}::{_data(message)}"


def _data(text: str) -> str:
    """Escape a message, which must stay in one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape the value of a property, which ends at a comma or at two colons."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# Markdown, for the summary of a workflow or for a comment

MARKS = {Level.ERROR: "❌", Level.WARNING: "⚠️", Level.NOTE: "✅"}


def markdown(report: Report) -> str:
    """Return a heading, the result in sentences, and a table of the lines."""
    parts = [f"### {MARKS[report.level]} {_plain(report.subject)}: {_plain(report.headline)}"]
    parts.append("\n".join(f"- {_plain(each)}" for each in report.sentences))
    if report.lines:
        has_gain = any(each.gain is not None for each in report.lines)
        rows = [["line", "cause", "what was found", *["potential speedup"] * has_gain]]
        rows.append(["---"] * len(rows[0]))
        for each in report.lines:
            place = each.name or (f"{each.file}:{each.line}" if each.line else each.file)
            gain = f"{each.gain:.2f}x" if each.gain is not None else ""
            rows.append([_code(place), _plain(each.cause), _plain(each.words), *[gain] * has_gain])
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(filter(None, parts)) + "\n"


def _plain(text: str) -> str:
    """Escape a text, so that a name such as __getitem__ or a | stays as it is."""
    text = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text)


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39)).replace('|', chr(92) + '|')}`" if text else ""


# SARIF 2.1.0, for code scanning: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
TOP = "%SRCROOT%"
"""The name for the top folder of the repository."""


def sarif(report: Report) -> str:
    """Return a log with a result for each line; for the whole script if there is none and it has failed.

    The rules are the causes, so that a finding is called the same in each run.
    """
    whole = ReportedLine("", None, report.cause, " ".join(report.sentences))
    results = list(report.lines) or ([whole] if report.level != "note" else [])
    rules = sorted({each.cause for each in results})
    driver = {
        "name": "workshop",
        "version": importlib.metadata.version("profiling-workshop"),
        "rules": [{"id": cause, "shortDescription": {"text": cause.replace("-", " ")}} for cause in rules],
    }
    run = {
        "tool": {"driver": driver},
        "results": [_result(each, report, rules) for each in results],
        "properties": {"subject": report.subject, "headline": report.headline, "sentences": list(report.sentences)},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(found: ReportedLine, report: Report, rules: list[str]) -> dict[str, Any]:
    file = found.file or report.file or report.subject  # GitHub takes nothing of a log in which a result has no place
    is_inside = not file.startswith("/")
    place = {"uri": quote(file if is_inside else f"file://{file}", safe="/:")}
    where: dict[str, Any] = {"artifactLocation": place | ({"uriBaseId": TOP} if is_inside else {})}
    if found.line:
        where["region"] = {"startLine": found.line}
    result: dict[str, Any] = {
        "ruleId": found.cause,
        "ruleIndex": rules.index(found.cause),
        "level": report.level.value,
        "message": {"text": _named(found)},
        "locations": [{"physicalLocation": where}],
    }
    if found.gain is not None:
        result["properties"] = {"gain": found.gain}
    return result


FORMATS: Mapping[str, Callable[[Report], str]] = {"github": github, "markdown": markdown, "sarif": sarif}
"""The function that writes each format."""
