"""Markdown, for the summary of a workflow or for a comment."""

import html
import re

from workshop.reports.report import Level, Report

MARKS = {Level.ERROR: "❌", Level.WARNING: "⚠️", Level.NOTE: "✅"}


def render(report: Report) -> str:
    """Return a heading, the result in sentences, and a table of the lines."""
    parts = [f"### {MARKS[report.level]} {_plain(report.subject)}: {_plain(report.headline)}"]
    parts.append("\n".join(f"- {_plain(each)}" for each in report.sentences))
    if report.lines:
        has_gain = any(each.gain is not None for each in report.lines)
        rows = [["line", "cause", "what was found", *["potential speedup"] * has_gain]]
        rows.append(["---"] * len(rows[0]))
        for each in report.lines:
            place = f"{each.file}:{each.line}" if each.line else each.file
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
