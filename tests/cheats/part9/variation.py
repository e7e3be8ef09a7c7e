"""lattice.py with its drawing exchanged: each cheat has its links sooner, and they are not drawn as they must be."""

from pathlib import Path

from workshop.parts import find_part


def train_with(draw_links: str) -> None:
    """Run the script with another function of that name, given as its source."""
    source = Path(find_part("part9").untouched).read_text()
    begin, end = source.index("def draw_links("), source.index("def ahead(")
    source = f"{source[:begin]}{draw_links}\n\n{source[end:]}"
    exec(compile(source, "lattice with an edit", "exec"), {"__name__": "__main__"})
