"""What a cell asks of an instrument: the words behind its magic, read before anything runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from workshop.cli.main import command_line
from workshop.cli.options import ModuleOption
from workshop.cli.output import require_writable
from workshop.errors import WorkshopError
from workshop.kernel.cells_so_far import HERE
from workshop.notebooks.cell_script import choose
from workshop.notebooks.notebook_file import SCRIPT_SUFFIXES

VIEW = ("function", "everything", "by", "html", "as_json")
"""The options of `workshop lines` that the magic has beside those of `workshop record lines`, as Python names them."""

_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]


@dataclass(frozen=True)
class Asking:
    """What a cell asks of an instrument."""

    name: str
    folder: Path
    """The folder of this cell."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The options that were typed, as Python names them, with their values."""
    view: Mapping[str, Any] = field(default_factory=dict)
    """Of `lines`, those that say how the lines are shown."""
    here: bool = False
    script: Sequence[str] = ()
    """The script, or -m and a module, with its arguments."""
    options: Sequence[Any] = ()
    """All options of the command."""

    @property
    def title(self) -> str:
        """What is run, in short: "train.py", also under torchrun, or "-m train"."""
        first, *others = self.script
        if first == "-m":
            return f"-m {others[0]}"
        started = (each for each in others if first == "torchrun" and each.endswith(SCRIPT_SUFFIXES))
        return next(started, first)

    def words(self, **own: object) -> list[str]:
        """Return the options for a command line, with some of our own; without those of `view`."""
        values, words = {**self.given, **own}, []
        for option in self.options:
            value = values.get(option.name)
            if option.is_flag and value is not None:
                words += (option.opts if value else option.secondary_opts)[:1]
            elif value is not None:
                several = value if option.multiple else [value]
                words += [word for each in several for word in (option.opts[0], str(each))]
        return words

    def plain(self, text: str) -> str:
        """Return a text in which cells have their names, without the files in a folder that nobody knows."""
        folder = r"\n?".join(map(re.escape, f"{self.folder}/"))  # a long path is broken at the end of a line
        text = re.sub(rf"{folder}\n?(In \[\d+\]\.ipynb/\n?)?", "", text)
        return re.sub(r"(In \[\d+\])(\.ipynb|\.lprof|\.py)+", r"\1", text)


def asked(name: str, words: Sequence[str], folder: Path, of_cell: bool = False) -> Asking | None:
    """Read the words behind a magic; if they ask for help, it is printed, and None returned.

    Args:
        name: that of the instrument.
        words: what was typed behind it.
        folder: the folder of this cell.
        of_cell: whether the cell itself takes the place of a script.

    Raises:
        WorkshopError: there is no such option, one has no such value, or a file cannot be written.
    """
    command = _command(name, of_cell)
    try:
        context = command.make_context(f"%{'%' * of_cell}{name}", list(words), ignore_unknown_options=False)
    except typer.Exit:
        return None
    except _USAGE_ERROR as error:
        raise WorkshopError(error.format_message()) from None
    finally:
        choose("")  # the option --cells is for the command, and not for this process
    typed = [each for each in context.params if context.get_parameter_source(each).name == "COMMANDLINE"]
    given = {each: context.params[each] for each in typed}
    script = [word for each in ("script", "arguments", "command") for word in _listed(given.pop(each, None))]
    script = ["-m", *script] if given.pop("is_module", False) and script else script
    if given.get("by") not in (None, "process"):
        raise WorkshopError(f"--by takes process, not {given['by']}")
    for file in filter(None, (given.get("html"), given.get("save"))):
        check_writable(Path(file))
    here = given.pop("here", False)
    view = {each: given.pop(each) for each in VIEW if each in given} if name == "lines" else {}
    return Asking(name, folder, given, view, here, script, _options(command))


def check_writable(path: Path) -> None:
    """Fail now, and not after minutes of measuring, if a file cannot be written; none is left that was not there.

    Raises:
        WorkshopError: it cannot be.
    """
    is_new = not path.exists()
    try:
        require_writable(path)
    except OSError as error:
        raise WorkshopError(f"cannot write {path}: {error.strerror}; name another place") from None
    if is_new:
        path.unlink()


def _command(name: str, of_cell: bool) -> Any:
    """The command of an instrument, as typer has it, with the options that only a magic has."""
    command, more = _named(name), {each.name: each for each in _of_magics().params}
    if name == "lines":
        view = [each for each in command.params if each.name in VIEW]
        command = _named("record").commands[name]
        command.params += [more["is_module"], *view]
    command.params.append(more["here"])
    for each in command.params:
        each.required = False  # what is missing is told with the sign of the magic
    if of_cell:
        command.params = [each for each in _options(command) if each.name != "is_module"]
    return command


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


def _of_magics() -> Any:
    """A command with the options that the magics have, and some commands have not."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def options(
        is_module: ModuleOption = False,
        here: Annotated[bool, typer.Option(HERE, help="Of %%lines: run the cell in the kernel itself.")] = False,
    ) -> None:
        """It is never run."""

    return get_command(app)


def _named(name: str) -> Any:
    command: Any = get_command(command_line(name))
    return command.commands[name]


def _listed(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or ()
