"""What an instrument has found, as a cell shows it and as it can be kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

FITTED = (
    "const page = this.contentDocument, rgb = getComputedStyle(this.parentNode).color.match(/[0-9.]+/g);"
    "this.style.colorScheme = +rgb[0] + +rgb[1] + +rgb[2] > 382 ? 'dark' : 'light';"
    "this.style.height = 0;"  # a page is as high as its frame at least
    "this.style.height = Math.min(page.documentElement.scrollHeight + 2, 680) + 'px';"
)
"""Gives the page the height that it needs, up to one that fits on a screen, and the colours of what is around it."""


@dataclass(frozen=True, repr=False)
class Answer:
    """What an instrument has found; as the last value of a cell, it is shown as a page.

    `_.values` of the next cell are its figures, `_.text` is what the command prints, and `_.save("page.html")` writes
    the page.
    """

    text: str
    """What the command prints."""
    page: str
    """The page that it writes."""
    values: Mapping[str, Any]
    """The figures, as in its `--json`."""

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.page, encoding="utf-8")

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The page in a frame; below it the text, for viewers that show no frames, and for the search in a page."""
        frame = (
            f'<iframe srcdoc="{escape(self.page)}" onload="{escape(FITTED)}" '
            'style="width: 100%; height: 480px; border: 1px solid #8884; border-radius: 4px"></iframe>'
        )
        as_text = f"<pre>{escape(self.text)}</pre>"
        return f"{frame}<details><summary>As text</summary>{as_text}</details>"
