"""The command `workshop`: its groups of commands, and what it prints without a command."""

import importlib.metadata
import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from workshop.cli.options import COURSE, DEFAULT_SCRIPT, INSTRUCTORS, INSTRUMENTS, state_beside
from workshop.cli.output import filled
from workshop.errors import EXIT_INTERRUPTED, plain_errors
from workshop.probe.log import LEVEL_VARIABLE

MODULES = {
    **dict.fromkeys(("list", "show", "hint", "diff", "solution", "start", "reset", "restore"), "course"),
    **dict.fromkeys(("check", "watch", "dev"), "check"),
    "report": "course",
    **dict.fromkeys(("doctor", "data"), "this_machine"),
    "measure": "staged_commands",
    "monitor": "this_machine",
    **dict.fromkeys(("tune", "memory"), "staged_commands"),
    "compare": "compare_command",
    "lines": "lines_command",
    **dict.fromkeys(("py-spy-report", "flamegraph"), "py_spy_commands"),
    "trace": "trace_command",
    **dict.fromkeys(("torchrun", "record"), "record"),
    "mcp": "servers",
    **dict.fromkeys(("join", "leave"), "joining"),
    "room": "servers",
}
"""The module here of each command, in the order of the help. To start faster, only that of the typed one is loaded."""


class GroupedCommands(TyperGroup):
    """Lists the commands in groups: the course, the instruments, and those for instructors and authors last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of those that are loaded."""
        return [name for name in MODULES if name in self.commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {COURSE: [], INSTRUMENTS: [], INSTRUCTORS: []}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command and not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                rows = groups.setdefault(panel if isinstance(panel, str) else "For authors of parts", [])
                rows.append((name, command.get_short_help_str(limit=66)))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def command_line(typed: str = "") -> typer.Typer:
    """Return the command line with the module of one command, or with all modules if there is no such command."""
    app = typer.Typer(
        cls=GroupedCommands,
        epilog="Without a command, it says what to do next.",
        invoke_without_command=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for module in dict.fromkeys([MODULES[typed]] if typed in MODULES else MODULES.values()):
        app.add_typer(import_module(f"workshop.cli.{module}").app)
    app.callback()(what_next)
    return app


def main() -> None:
    """Run the command line."""
    # A timeout or a closed terminal ends this as Ctrl-C does, leaving nothing behind. Windows lacks SIGHUP.
    for name in ("SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):
            signal.signal(number, lambda received, _: sys.exit(128 + received))
    with plain_errors():
        try:
            typed = [word for number, word in enumerate(sys.argv[1:]) if number or word not in ("-v", "--verbose")]
            command_line(*typed[:1])(prog_name="workshop")  # also when it is run as a module
        except SystemExit as stop:
            # typer exits without a message; a recorder has said what it kept, below what the script has said.
            if stop.code == EXIT_INTERRUPTED and stop.__cause__ is None:
                raise KeyboardInterrupt from None
            raise


def what_next(
    context: typer.Context,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say what the workshop does inside scripts and around them.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A profiling workshop for PyTorch."""
    if version:
        print(f"workshop {importlib.metadata.version('profiling-workshop')}")
        raise typer.Exit
    if verbose:
        os.environ[LEVEL_VARIABLE] = "debug"
    if context.invoked_subcommand is None:
        from workshop.cli.joining import tell_room
        from workshop.course.progress import next_step

        state = state_beside(None)
        says, command = next_step(state, DEFAULT_SCRIPT)
        print(f"{filled(says)}\n\n    {command}\n\nAll commands: workshop --help")
        tell_room(state)
