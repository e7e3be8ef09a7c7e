"""The glossary: what the words of the lessons and of the reports mean."""

import difflib
import re

from workshop.errors import WorkshopError
from workshop.parts import FOLDER

GLOSSARY = FOLDER / "glossary.md"
"""A link to `docs/glossary.md`, so that an installed package has it as well."""

WHOLE = "glossary"
"""The name under which the whole glossary is shown."""


def entries() -> dict[str, str]:
    """Return the entries by the anchors of their headings, such as "data-wait", each with its heading."""
    found = re.findall(r"^(### ([^\n]+)\n\n.+?)\s*(?=^##|\Z)", GLOSSARY.read_text(encoding="utf-8"), re.M | re.S)
    return {anchor(word): entry for entry, word in found}


def anchor(word: str) -> str:
    """Return the anchor of a heading, as GitHub makes it: "data wait" has "data-wait"."""
    return re.sub(r"[^\w-]", "", word.strip().lower().replace(" ", "-"))


def find(name: str) -> str | None:
    """Return the entry of a word, or the whole glossary for its name; None if there is no such word."""
    if anchor(name) == WHOLE:
        return GLOSSARY.read_text(encoding="utf-8")
    words = entries()
    return words.get(anchor(name)) or words.get(anchor(name).removesuffix("s"))


def refuse_unknown(name: str) -> None:
    """Refuse what resembles a word of the glossary, or has no number and so cannot be the name of a part.

    Raises:
        WorkshopError: it does.
    """
    if close := difflib.get_close_matches(anchor(name), entries(), n=1, cutoff=0.75):
        raise WorkshopError(f"there is no {name!r}; did you mean {close[0]}?")
    if not re.search(r"\d", name):
        raise WorkshopError(f"there is no part or word {name!r}; workshop show glossary has all words")
