"""Annotations for GitHub: lines in the log of a workflow, which it shows at the file and line of a pull request.

The form is that of its workflow commands:
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from workshop.reports.report import Level, Report

COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def render(report: Report) -> str:
    """Return an annotation for each line, and one for the result as a whole."""
    lines = [
        _annotation(report.level, each.words, file=each.file, line=each.line, title=f"workshop: {each.cause}")
        for each in report.lines
    ]
    title = f"workshop: {report.subject}: {report.headline}"
    return "\n".join([*lines, _annotation(report.level, "\n".join(report.sentences), title=title)]) + "\n"


def _annotation(level: Level, message: str, **properties: str | int | None) -> str:
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value)
    return f"::{COMMANDS[level]} {given}::{_data(message)}"


def _data(text: str) -> str:
    """Escape a message, which must stay in one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape the value of a property, which ends at a comma or at two colons."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
