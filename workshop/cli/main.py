"""The command `workshop`: its groups of commands, and what it says without one."""

import signal
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from workshop.cli import check, course, lines, record, recordings, runs, setup, trace
from workshop.cli.options import COURSE, DEFAULT_SCRIPT, INSTRUMENTS
from workshop.cli.output import filled
from workshop.course.progress import next_step
from workshop.errors import EXIT_INTERRUPTED, plain_errors


class GroupedCommands(TyperGroup):
    """Shows the commands of the course apart from the instruments, and those for authors last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {COURSE: [], INSTRUMENTS: []}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command and not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                rows = groups.setdefault(panel if isinstance(panel, str) else "For authors of parts", [])
                rows.append((name, command.get_short_help_str(limit=66)))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=GroupedCommands,
    epilog="Without a command, it says what to do next.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (course, check, setup, runs, lines, recordings, trace, record):
    app.add_typer(module.app)
app.add_typer(setup.data_app, name="data", help="Get the pictures: photos, or a stand-in.", rich_help_panel=COURSE)
RECORD_HELP = "Record a run with a profiler, without an edit to it."
app.add_typer(record.record_app, name="record", help=RECORD_HELP, rich_help_panel=INSTRUMENTS)
app.add_typer(check.dev_app, name="dev", help="Prove that the workshop's own checks are right.")


def main() -> None:
    """Run the command line."""
    # A timeout, or a terminal that is closed, ends this as Ctrl-C does, with nothing left behind. Windows lacks SIGHUP.
    for name in ("SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):
            signal.signal(number, lambda received, _: sys.exit(128 + received))
    with plain_errors():
        try:
            app(prog_name="workshop")  # also when it is run as a module
        except SystemExit as stop:
            if stop.code == EXIT_INTERRUPTED:  # typer ends without a word
                raise KeyboardInterrupt from None
            raise


@app.callback()
def what_next(context: typer.Context) -> None:
    """A profiling workshop for PyTorch."""
    if context.invoked_subcommand is None:
        says, command = next_step(course.state_beside(None), DEFAULT_SCRIPT)
        print(f"{filled(says)}\n\n    {command}\n\nAll commands: workshop --help")
