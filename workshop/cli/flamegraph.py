"""The command `workshop flamegraph`."""

from pathlib import Path
from typing import Annotated

import typer

from workshop.cli.options import INSTRUMENTS, LibraryOption, RecordingsArgument, RecordingsOption
from workshop.cli.output import say, write_file

app = typer.Typer()


@app.command(rich_help_panel=INSTRUMENTS)
def flamegraph(
    files: RecordingsArgument = None,
    file: RecordingsOption = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Ends in .html, .svg or .speedscope.json.")] = Path(
        "flamegraph.html"
    ),
    library: LibraryOption = None,
    diff: Annotated[
        Path | None,
        typer.Option(help="A recording to compare with.", metavar="BEFORE", show_default=False),
    ] = None,
) -> None:
    """Draw a py-spy recording as a flame graph.

    It is one file, which any browser opens, without a network.

    Example: workshop flamegraph --file py-spy-outputs/profile.raw

    Click a frame to zoom into it, Esc to get back; / searches, the arrow keys walk, Enter zooms. With --diff, red is
    what got slower since BEFORE, and blue what got faster.
    """
    from workshop import flamegraph as drawing
    from workshop.cli.py_spy_report import read_recording
    from workshop.profiles import stacks
    from workshop.profiles.code_origin import script_of

    recording = read_recording(files, file)
    before = stacks.read(diff) if diff else None
    write_file(output, drawing.draw(output, recording, before, library or script_of(recording)))
    for note in [*recording.damage, *(before.damage if before else [])]:
        say(note)
    print(f"{output} shows {recording.samples} samples. Open it in a browser.")
