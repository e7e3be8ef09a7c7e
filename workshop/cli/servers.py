"""The commands that open a server: `workshop room` for a class, and `workshop mcp` for an agent."""

from pathlib import Path
from typing import Annotated

import typer

from workshop.cli.options import INSTRUCTORS, INSTRUMENTS, installed
from workshop.cli.output import commands, filled
from workshop.parts import all_parts

app = typer.Typer()


@app.command(rich_help_panel=INSTRUCTORS)
def room(
    share: Annotated[Path | None, typer.Argument(help="The folder with what the class gets: packages, photos.")] = None,
    host: Annotated[str, typer.Option(help="The address of this machine to listen on.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for a free one.")] = 8000,
    database: Annotated[
        str, typer.Option(help="A file for SQLite, or postgresql://USER@HOST/NAME.", metavar="FILE|URL")
    ] = "room.sqlite",
    address: Annotated[str, typer.Option(help="The address that others type, if it is another one.")] = "",
    certificate: Annotated[Path | None, typer.Option(help="For https: the certificate, as PEM.", exists=True)] = None,
    private_key: Annotated[
        Path | None, typer.Option(help="Its private key, if not in the same file.", exists=True)
    ] = None,
) -> None:
    """Open a room for a class, with a board for its results.

    Example: workshop room share

    Ctrl-C ends it. What it has acknowledged is kept: started again with the same database, it goes on.
    """
    with installed("room", "a server and a database", "starlette", "uvicorn", "sqlalchemy", "anyio"):
        from workshop.room.open_room import OpenRoom
        from workshop.room.serving import ServedAt, serve

    from workshop.room.room_client import normal_address

    if private_key and not certificate:
        raise typer.BadParameter("goes with --certificate", param_hint="--private-key")
    scheme = "" if "://" in address else "https://" if certificate else "http://"

    def say(opened: OpenRoom, listens_on: str) -> None:
        joins = f"workshop join {opened.address} {opened.code} --name YOUR_NAME"
        print(filled(f"The room is open. It listens on {listens_on}. Participants type:"))
        print(f"\n{commands(joins)}\n")
        print(f"The board, for the projector:\n\n{commands(opened.address)}\n")
        print(f"Your page; whoever has this link can change the board:\n\n{commands(opened.instructor_link)}\n")
        print(filled(f"Results are kept in {opened.kept_in}. Ctrl-C ends it."), flush=True)

    at = ServedAt(host, port, certificate, private_key, normal_address(scheme + address) if address else "")
    serve(database, share, at, {part.name: part.title for part in all_parts()}, say)


@app.command(rich_help_panel=INSTRUMENTS)
def mcp() -> None:
    """Offer the instruments to an agent, over MCP on stdio.

    Example: workshop mcp

    An agent starts this by itself, in the folder with the scripts: it can run scripts of this folder under measure,
    lines, compare and trace, and read the lessons. docs/agents.md is the page to give to it.
    """
    with installed("mcp", "the SDK of MCP", "mcp", "anyio"):
        from workshop.agents import server
    server(Path.cwd()).run("stdio")
