"""Flame graphs of recorded stacks: a tree of frames, and a module for each format it is drawn in."""

from pathlib import Path

from workshop.errors import WorkshopError
from workshop.flamegraph.page import page
from workshop.flamegraph.speedscope import speedscope
from workshop.flamegraph.svg import svg
from workshop.flamegraph.tree import build
from workshop.profiles.stacks import Recording


def draw(output: Path, recording: Recording, before: Recording | None = None, library: str = "") -> str:
    """Return the text of a file that shows stacks, in the format that the file's name asks for.

    Args:
        output: the file; its name ends in .html, .svg, or .speedscope.json.
        recording: the stacks.
        before: a recording to compare with; not for speedscope.
        library: a text that the paths of the user's code contain.

    Raises:
        WorkshopError: the file's name asks for no known format.
    """
    title = " compared with ".join(
        " and ".join(sorted({Path(source).name for source in each.sources})) for each in (recording, before) if each
    )
    if drawer := {".html": page, ".svg": svg}.get(output.suffix):
        return drawer(build(recording, before, library), title, before is not None)
    if output.suffix == ".json" and before is None:
        return speedscope(recording, title)
    formats = ".html or .svg" if before is not None else ".html, .svg or .speedscope.json"
    raise WorkshopError(f"cannot draw {output}: its name must end in {formats}")
