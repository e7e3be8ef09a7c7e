"""part10's solution with a few places of its text exchanged."""

from pathlib import Path

from solutions import part10


def train_with(*edits: tuple[str, str]) -> None:
    """Run the solution with each first text, which it holds once, replaced by the second."""
    source = Path(part10.__file__).read_text()
    for old, new in (*edits, ("num_workers=4,", "num_workers=1,")):  # fewer workers start sooner
        assert source.count(old) == 1, f"part10.py has {source.count(old)} of: {old}"
        source = source.replace(old, new)
    exec(compile(source, "part10 with edits", "exec"), {"__name__": "__main__"})
