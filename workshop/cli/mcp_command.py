"""The command that offers the instruments to agents: `workshop mcp`."""

from pathlib import Path

import typer

from workshop.cli.options import INSTRUMENTS
from workshop.errors import WorkshopError

app = typer.Typer()


@app.command(rich_help_panel=INSTRUMENTS)
def mcp() -> None:
    """Offer the instruments to an agent, over MCP on stdio.

    Example: workshop mcp

    An agent starts this by itself, in the folder with the scripts: it can run scripts of this folder under measure,
    lines, compare and trace, and read the lessons. docs/agents.md is the page to give to it.
    """
    try:
        from workshop.agents import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "anyio"):
            raise
        raise WorkshopError("this needs the SDK of MCP: pip install 'profiling-workshop[mcp]'") from None
    server(Path.cwd()).run("stdio")
