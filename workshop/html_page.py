"""Fills the template of a page: one HTML file, for which nothing is loaded from anywhere."""

import json
from html import escape
from importlib.resources import files
from typing import Any


def fill(package: str, data: Any = None, **texts: str) -> str:
    """Return the page of a package, which holds page.html, page.css and, for a page that runs one, a script page.js.

    Args:
        package: the package's name.
        data: what the script of the page reads as JSON, in the place of `/*DATA*/`.
        **texts: HTML that takes the place of `<!--NAME-->`; the text called `title` is escaped.
    """
    own = files(package)
    files_of = {kind: own.joinpath(f"page.{kind}") for kind in ("html", "css", "js")}
    html, style, script = (each.read_text(encoding="utf-8") if each.is_file() else "" for each in files_of.values())
    # Inside a script element, only "<" could end it too early.
    plain = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    texts["title"] = escape(texts["title"])
    marks = {f"<!--{name.upper()}-->": text for name, text in texts.items()}
    for mark, text in {"/*STYLE*/": style, "/*SCRIPT*/": script, "/*DATA*/": plain, **marks}.items():
        html = html.replace(mark, text)
    return html
