"""lattice.py with its drawing exchanged: each cheat draws its links faster, but not from the right distribution."""

from workshop.parts import find_part


def train_with(draw_links: str) -> None:
    """Run the script with another function of that name, given as its source, which may call `draw_honestly`."""
    source = find_part("part9").untouched.read_text().replace("def draw_links(", "def draw_honestly(")
    source = source.replace("def ahead(", f"{draw_links}\n\ndef ahead(")
    exec(compile(source, "lattice with an edit", "exec"), {"__name__": "__main__"})
