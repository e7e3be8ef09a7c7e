"""What all pages have in common: one template, one stylesheet, bars, tables of figures, and source."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape, unescape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

Part = tuple[str, float, str]
"""A part of a bar: its colour, its share of the whole width, and what it says."""

MIB = 1 << 20
"""Bytes of a mebibyte, in which pages give memory."""

AROUND = 3
"""Lines of source that are shown before and after one that a page is about."""


def read(name: str) -> str:
    """Return a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def fill(title: str, body: str, made_by: str, script: str = "", data: Any = None) -> str:
    """Return a page.

    Args:
        title: the title, as plain text.
        body: what the page shows below it, as HTML.
        made_by: the command that draws such pages, by which `maker_of` knows them: "workshop trace".
        script: the name of the file with its script; "" for a page that runs none.
        data: what the script reads as JSON.
    """
    scripts = ""
    if script:
        # Inside a script element, only "<" could end it too early.
        plain = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
        scripts = (
            "<noscript>This page is drawn with JavaScript, which is off.</noscript>\n"
            f'<script id="data" type="application/json">{plain}</script>\n<script>\n{read(script)}</script>'
        )
    return Template(read("template.html")).substitute(
        title=escape(title),
        made_by=escape(made_by),
        style=read("style.css") + read("listing.css"),
        body=body,
        allowed="'unsafe-inline'" if script else "'none'",
        script=scripts,
    )


def maker_of(page: str) -> tuple[str, str] | None:
    """Return the command that made a page or a picture, and its title, from the beginning of its text.

    Return None for a file that none of the commands here has made.
    """
    found = re.search(r'<meta name="generator" content="(workshop [\w -]+)">\s*<title>(.*?)</title>', page, re.DOTALL)
    found = found or re.search(r"<metadata>(workshop [\w -]+)</metadata><title>(.*?)</title>", page, re.DOTALL)
    return (found[1], unescape(found[2])) if found else None


def section(heading: str, content: str) -> str:
    """Return a part of a page."""
    return f"<section><h2>{escape(heading)}</h2>{content}</section>"


def findings(
    found: Iterable[Mapping[str, Any]],
    gain: Callable[[Any], str],
    says: Callable[[Any], str],
    sources: Mapping[str, list[str]],
) -> str:
    """Return a list of findings: what, where, the line itself, and what to do.

    Args:
        found: each as plain values.
        gain: what fixing one brings, in a few words.
        says: what is known of one, in sentences.
        sources: the lines of each file that is named, by its path.
    """
    items = "".join(_finding(each, gain(each), says(each), sources) for each in found)
    return f'<ol id="findings">{items or "<li>Nothing that was looked for.</li>"}</ol>'


def _finding(found: Mapping[str, Any], gain: str, says: str, sources: Mapping[str, list[str]]) -> str:
    where = code = ""
    if found["file"] and found["line"]:
        process = "" if found["process"] == "training" else f" ({found['process']})"
        where = f"{Path(found['file']).name}:{found['line']}, in {found['function']}{process}"
        lines = sources.get(found["file"], [])
        code = f"<pre>{escape(lines[found['line'] - 1].strip())}</pre>" if len(lines) >= found["line"] else ""
    return (
        f'<li><span class="gain">{escape(gain)}</span><b>{escape(found["cause"])}</b> '
        f"{escape(where)}{code}<div>{escape(says)}</div></li>"
    )


def crashed(crash: Mapping[str, Any] | None) -> str:
    """Return that a script has crashed while it was measured, with its own words; nothing if it has not."""
    return f"<p><b>{escape(crash['words'])}</b></p><pre>{escape(crash['output'])}</pre>" if crash else ""


def keys(colours: Mapping[str, str]) -> str:
    """Return what the colours of bars stand for."""
    each = (f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in colours.items())
    return f'<p class="keys">{"".join(each)}</p>'


def bar(label: str, parts: Iterable[Part], says: str) -> str:
    """Return a bar between its label and what it says."""
    return f'<div class="bar"><span>{escape(label)}</span><div>{bar_parts(parts)}</div><em>{escape(says)}</em></div>'


def bar_parts(parts: Iterable[Part]) -> str:
    """Return the parts of a bar."""
    return "".join(
        f'<i style="background:{colour};width:{share:.3%}" title="{escape(words)}"></i>'
        for colour, share, words in parts
    )


def table(header: Sequence[str], rows: Iterable[str], kind: str = "", words: Collection[int] = ()) -> str:
    """Return a table, which is scrolled where it is too wide; a row is HTML, and numbers are to the right.

    `words` are the numbers of the columns that have none, beside the first.
    """
    head = "".join(f"<th{' class=word' * (at in words)}>{each}</th>" for at, each in enumerate(header))
    return f'<div class="scrolled"><table class="figures {kind}"><tr>{head}</tr>{"".join(rows)}</table></div>'


def excerpt(
    file: str, lines: list[str], wanted: set[int], found: set[tuple[str, int]], beside: Callable[[int], tuple[str, str]]
) -> str:
    """Return the wanted lines of a file, and those around them; beside each, a figure and the parts of a bar."""
    rows, before = [], 0
    for number, text in enumerate(lines, start=1):
        if any(abs(number - each) <= AROUND for each in wanted):
            if number > before + 1:
                rows.append('<tr><td></td><td></td><td class="quiet">...</td><td></td></tr>')
            figure, parts = beside(number)
            cells = f"<td>{figure}</td><td><div>{parts}</div></td><td>{number}</td><td>{escape(text)}</td>"
            rows.append(f'<tr class="found">{cells}</tr>' if (file, number) in found else f"<tr>{cells}</tr>")
            before = number
    return f'<h3>{escape(file)}</h3><div class="scrolled"><table class="source">{"".join(rows)}</table></div>'
