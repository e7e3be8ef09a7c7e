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
        library: what the paths of one's own code contain.

    Raises:
        WorkshopError: the name asks for no format that is known.
    """
    title = " and ".join(sorted({Path(stack.source).name for stack in recording.stacks}))
    if before is not None:
        title += " compared with " + " and ".join(sorted({Path(stack.source).name for stack in before.stacks}))
    if output.suffix == ".html":
        return page(build(recording, before, library), title, before is not None)
    if output.suffix == ".svg":
        return svg(build(recording, before, library), title, before is not None)
    if output.suffix == ".json" and before is None:
        return speedscope(recording, title)
    formats = ".html or .svg" if before is not None else ".html, .svg or .speedscope.json"
    raise WorkshopError(f"cannot draw {output}: its name must end in {formats}")
