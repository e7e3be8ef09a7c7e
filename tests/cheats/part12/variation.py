"""part12's solution with a few places of its text exchanged: each cheat has even less in memory, for less work."""

from pathlib import Path

from solutions import part12


def train_with(*edits: tuple[str, str]) -> None:
    """Run the solution with each first text, which it holds once, replaced by the second."""
    source = Path(part12.__file__).read_text()
    for old, new in edits:
        assert source.count(old) == 1, f"part12.py has {source.count(old)} of: {old}"
        source = source.replace(old, new)
    exec(compile(source, "part12 with edits", "exec"), {"__name__": "__main__"})
