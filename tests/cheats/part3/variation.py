"""part3's solution with a few places of its text exchanged: most cheats are one edit away from an honest script."""

from pathlib import Path

from solutions import part3


def train_with(*edits: tuple[str, str], workers: int = 2) -> None:
    """Run the solution with each first text, which it holds once, replaced by the second."""
    source = Path(part3.__file__).read_text()
    for old, new in (*edits, ("num_workers=8,", f"num_workers={workers},")):  # fewer workers start sooner
        assert source.count(old) == 1, f"part3.py has {source.count(old)} of: {old}"
        source = source.replace(old, new)
    exec(compile(source, "part3 with edits", "exec"), {"__name__": "__main__"})
