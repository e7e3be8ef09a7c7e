"""An original for `compare`, with a few places of its text exchanged: it is one edit away from each."""

from pathlib import Path

ORIGINALS = Path(__file__).resolve().parents[2] / "originals"


def train(name: str, *edits: tuple[str, str]) -> None:
    """Run the original of this name, with each first text, which it holds once, replaced by the second."""
    source = (ORIGINALS / f"{name}.py").read_text()
    for old, new in edits:
        assert source.count(old) == 1, f"{name}.py has {source.count(old)} of: {old}"
        source = source.replace(old, new)
    exec(compile(source, f"{name} with edits", "exec"), {"__name__": "__main__"})
