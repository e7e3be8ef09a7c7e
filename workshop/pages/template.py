"""What all pages have in common: one template, one stylesheet, bars, tables of figures, and source."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from html import escape, unescape
from importlib.resources import files
from string import Template
from typing import Any

from workshop.notebooks.cell_places import place, title
from workshop.probe.phases import Phase

Values = Mapping[str, Any]

Part = tuple[str, float, str]
"""A part of a bar: its colour, its share of the whole width, and what it says."""

PHASE_COLOURS = {str(phase): phase.colour for phase in Phase}


def read(name: str) -> str:
    """Return a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def fill(
    title: str, body: str | Iterable[str], made_by: str, script: str = "", data: Any = None, kind: str = ""
) -> str:
    """Return a page.

    Args:
        title: the title, as plain text.
        body: what the page shows below it, as HTML, or parts of that.
        made_by: the command that draws such pages, by which `maker_of` knows them: "workshop trace".
        script: the name of the file with its script; "" for a page that runs none.
        data: what the script reads as JSON.
        kind: how it looks: a class of the stylesheet.
    """
    shown, scripts = "".join(body), ""
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
        body=f'<div class="{kind}">{shown}</div>' if kind else shown,
        allowed="'unsafe-inline'" if script else "'none'",
        script=scripts,
    )


def measured(title: str, summary: str, found: Values, sections: Mapping[str, str], made_by: str) -> str:
    """Return the page of an instrument that runs a script.

    Args:
        title: the title, as plain text.
        summary: what was measured, in a sentence.
        found: the result as plain values, of which its crash and its notes are shown.
        sections: the content of each section, by its heading; one without is left out.
        made_by: the command that draws such pages.
    """
    body = [quiet(escape(summary)) if summary else "", _crash(found)]
    body += [section(heading, content) for heading, content in sections.items()]
    return fill(title, [*body, paragraphs(found["notes"])], made_by, kind="measured")


def maker_of(page: str) -> tuple[str, str] | None:
    """Return the command that made a page or a picture, and its title, from the beginning of its text.

    Return None for a file that none of the commands here has made.
    """
    found = re.search(r'<meta name="generator" content="(workshop [\w -]+)">\s*<title>(.*?)</title>', page, re.DOTALL)
    found = found or re.search(r"<metadata>(workshop [\w -]+)</metadata><title>(.*?)</title>", page, re.DOTALL)
    return (found[1], unescape(found[2])) if found else None


def _crash(found: Values) -> str:
    """How a script has failed while it was measured, with its own words; nothing if it has not."""
    if failure := found.get("failure"):
        return f"<p><b>{escape(failure)}</b></p>"
    crash = found["crash"]
    return f"<p><b>{escape(crash['words'])}</b></p><pre>{escape(crash['output'])}</pre>" if crash else ""


def section(heading: str, content: str) -> str:
    """Return a part of a page; nothing if it has no content."""
    return f"<section><h2>{escape(heading)}</h2>{content}</section>" if content else ""


def quiet(content: str) -> str:
    """Return a paragraph that stands back."""
    return f'<p class="quiet">{content}</p>'


def paragraphs(texts: Iterable[object]) -> str:
    """Return a paragraph for each text."""
    return "".join(f"<p>{prose(str(each))}</p>" for each in texts)


def prose(text: str) -> str:
    """Return a text as HTML, in which what stands between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def chart(parts: Iterable[str], width: int, height: int, label: str) -> str:
    """Return a chart of elements of SVG, which is scaled to the width of the page."""
    box = f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}"'
    return f'<svg class="curve" {box}>{"".join(parts)}</svg>'


def findings(told: Iterable[tuple[Mapping[str, Any], str, str]], sources: Mapping[str, list[str]]) -> str:
    """Return a list of findings, each with what fixing it brings and what is said of it: where, and the line itself."""
    shown = []
    for found, gain, says in told:
        where = code = ""
        if found["file"] and found["line"]:
            process = "" if found["process"] == "training" else f" ({found['process']})"
            where = f"{place(found['file'], found['line'])}, in {found['function']}{process}"
            lines = sources.get(found["file"], [])
            code = f"<pre>{escape(lines[found['line'] - 1].strip())}</pre>" if len(lines) >= found["line"] else ""
        what = f'<span class="gain">{escape(gain)}</span><b>{escape(found["cause"])}</b> {escape(where)}'
        shown.append(f"{what}{code}<div>{prose(says)}</div>")
    return items(shown or ["Nothing that was looked for."])


def items(contents: Iterable[str]) -> str:
    """Return the list of what was found; each item is HTML."""
    return f'<ol id="findings">{"".join(f"<li>{each}</li>" for each in contents)}</ol>'


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


def table(
    header: Sequence[str], rows: Iterable[str | Sequence[str]], kind: str = "", words: Collection[int] = ()
) -> str:
    """Return a table, which is scrolled where it is too wide; nothing if it has no rows.

    A row is its cells, or is HTML. Numbers are to the right; `words` are the columns that have none, beside the first.
    """
    head = "".join(f"<th{' class=word' * (at in words)}>{each}</th>" for at, each in enumerate(header))
    body = "".join(
        each if isinstance(each, str) else f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in each)}</tr>"
        for each in rows
    )
    return f'<div class="scrolled"><table class="figures {kind}"><tr>{head}</tr>{body}</table></div>' if body else ""


def excerpts(
    lines: Iterable[Values],
    found: Iterable[Values],
    sources: Mapping[str, list[str]],
    part: Callable[[Values], Part],
    figure: Callable[[list[Values]], str],
    min_share: float,
    explanation: str,
) -> str:
    """Return each file around the lines that are found, or whose parts of a bar have this share at least together.

    Three lines are shown before and after each. Beside a line are the figure of all that is known of it, and a bar of
    their parts; `explanation` says which.
    """
    of_files: dict[str, dict[int, list[Values]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        of_files[line["file"]][line["line"]].append(line)
    marked = {(each["file"], each["line"]) for each in found if each["line"]}
    shown = []
    for file in dict.fromkeys([*of_files, *(path for path, _ in marked)]):
        beside = {number: (figure(of), list(map(part, of))) for number, of in of_files[file].items()}
        large = {number for number, (_, parts) in beside.items() if sum(share for _, share, _ in parts) >= min_share}
        wanted = large | {number for path, number in marked if path == file}
        if wanted and file in sources:
            rows = _excerpt(sources[file], wanted, {number for path, number in marked if path == file}, beside)
            table = f'<div class="scrolled"><table class="source">{"".join(rows)}</table></div>'
            shown.append(f"<h3>{escape(title(file))}</h3>{table}")
    return quiet(explanation) + "".join(shown) if shown else ""


def _excerpt(
    lines: list[str], wanted: set[int], marked: set[int], beside: Mapping[int, tuple[str, list[Part]]]
) -> Iterator[str]:
    before = 0
    for number, text in enumerate(lines, start=1):
        if any(abs(number - each) <= 3 for each in wanted):
            if number > before + 1:
                yield '<tr><td></td><td></td><td class="quiet">...</td><td></td></tr>'
            figure, parts = beside.get(number, ("", []))
            cells = f"<td>{figure}</td><td><div>{bar_parts(parts)}</div></td><td>{number}</td><td>{escape(text)}</td>"
            yield f'<tr class="found">{cells}</tr>' if number in marked else f"<tr>{cells}</tr>"
            before = number
