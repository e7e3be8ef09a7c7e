"""Why a check refused a script, in words of the workshop alone: nothing that only the participant's script says."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import workshop

MASK = "…"
MAX_LENGTH = 200

_WORD = re.compile(r"[^\W\d_]+(?:'s|n't)?[,:;.]?")

_SAYS_REASONS = ("judge", "course/answers", "parts", "runs")
"""The folders whose sentences are reasons."""


def told(reason: str) -> str:
    """Return a reason with its numbers, and whatever is not a word of the workshop's own sentences, left out.

    What is left out shows as "…", so that the same reason of two participants reads the same.
    """
    text = " ".join(map(_told, reason.split()))
    text = re.sub(rf"{MASK}(?:[,:;.]? {MASK})+", MASK, text)
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + MASK


def _told(token: str) -> str:
    """Return a word of a reason as it is told."""
    word, end = re.fullmatch(r"(.*?)([,:;.]?)", token, re.DOTALL).groups()  # type: ignore[union-attr]
    return (word if word.lower() in own_words() else MASK) + end


@functools.cache
def own_words() -> frozenset[str]:
    """Return the words of the sentences in the workshop's source."""
    package = Path(workshop.__file__).parent
    words: set[str] = set()
    for folder in _SAYS_REASONS:
        for path in sorted((package / folder).rglob("*.py")):
            if "cases" not in path.parts:
                for text in _sentences(path):
                    words |= {word.lower().rstrip(",:;.") for word in text.split() if _WORD.fullmatch(word)}
    return frozenset(words)


def _sentences(path: Path) -> Iterator[str]:
    """Yield the texts that are sentences or parts of one: those with a space in them, or in an f-string."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts = ast.walk(node) if isinstance(node, ast.JoinedStr) else [node]
        for part in parts:
            text = part.value if isinstance(part, ast.Constant) else None
            if isinstance(text, str) and (part is not node or " " in text):
                yield text
