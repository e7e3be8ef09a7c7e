"""What commands that run somebody's script share: each says what it measures, and how that is shown."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from workshop.cli.output import print_json, progress_line, require_writable, tell_of_notebook, write_file
from workshop.cli.reported import of_verdict, wanted, write_reports
from workshop.errors import WorkshopError
from workshop.notebooks.notebook_file import SCRIPT_SUFFIXES, as_typed, name_of
from workshop.reports import Report

if TYPE_CHECKING:
    from workshop.diagnosis.change import Change
    from workshop.runs.script import Say
    from workshop.runs.script_error import ScriptError

Found = TypeVar("Found")


@dataclass
class Asked:
    """What a command was asked: the script to run, and where the answer goes.

    Raises:
        WorkshopError: an option stands behind the script, or a file that is to be written has no folder.
        typer.BadParameter: two answers go to stdout, or there is no such format.
    """

    context: typer.Context
    script: str
    arguments: list[str]
    is_module: bool = False
    as_json: bool = False
    html: Path | None = None
    save: Path | None = None
    formats: list[str] | None = None

    def __post_init__(self) -> None:
        self._refuse_misplaced()
        tell_of_notebook(self.path)
        self.reports = wanted(self.formats, self.as_json)
        for path in filter(None, (self.html, self.save)):
            require_writable(path)

    def _refuse_misplaced(self) -> None:
        """Raise an error if options of a command stand behind a script that mentions neither them nor `sys.argv`.

        It would cost a whole run to find out that the script got them.
        """
        own = {each for option in self.context.command.params for each in (*option.opts, *option.secondary_opts)}
        misplaced = [each for each in self.arguments if each.startswith("--") and each in own]
        is_read = misplaced and Path(self.script).is_file()
        text = Path(self.script).read_text(errors="replace") if is_read else "sys.argv"
        for option in misplaced:
            name = option.strip("-").replace("-", "[-_]")
            if not re.search(rf"--{name}\b|\b{name}\s*[:=]|sys\.argv", text):
                raise WorkshopError(
                    f"{option} stands behind {self.script}, which would get it and does not mention it; options of "
                    f"{self.context.info_name} come before the script (meant for the script? write {option}=VALUE)"
                )

    @property
    def path(self) -> str:
        """The path of the script; under torchrun, of the one it starts; of a module, where it is in this folder."""
        started = [each for each in self.arguments if each.endswith(SCRIPT_SUFFIXES)]
        if self.script == "torchrun" and started:
            return started[0]
        return f"{self.script.replace('.', '/')}.py" if self.is_module else self.script

    @property
    def name(self) -> str:
        """What the script is called."""
        return self.script if self.is_module else name_of(self.path)

    def found(self, measure: "Callable[[Say], Found]") -> Found:
        """Return what is measured, with progress shown meanwhile.

        Raises:
            typer.Exit: the script broke before anything was measured, which has been said.
        """
        from workshop.runs.script_error import ScriptError

        try:
            with progress_line() as show:
                return measure(show)
        except ScriptError as error:
            self._broken(error)

    def _broken(self, error: "ScriptError") -> NoReturn:
        """Say in the way that was asked for that the script broke, and end; what was to be written is not."""
        from workshop.cli.result_text import print_verdict
        from workshop.judge.verdict import Outcome, broken

        verdict = broken(as_typed(self.script), error)
        if verdict.outcome is not Outcome.BROKEN:  # nothing was compared or decided
            verdict = replace(verdict, words="not measured")
        self.html = self.save = None
        code = verdict.outcome.exit_code
        self.answer(verdict.as_dict(), lambda: print_verdict(verdict), lambda: of_verdict(verdict), exit_code=code)

    def answer(
        self,
        values: dict[str, Any],
        text: Callable[[], None],
        report: Callable[[], Report] | None = None,
        page: Callable[[], str] | None = None,
        changes: "Sequence[Change] | None" = None,
        exit_code: int = 0,
        **more: Any,
    ) -> NoReturn:
        """Give the answer in each form that was asked for, and end.

        Args:
            values: the answer as plain values, which are kept, too.
            text: prints it for a person.
            report: makes it a report in the formats of others.
            page: draws it.
            changes: what has changed since an earlier measurement; None where there may be none.
            exit_code: that of the command.
            more: what JSON has besides.
        """
        if self.html and page:
            write_file(self.html, page())
        if self.save:
            write_file(self.save, json.dumps(values))
        on_stdout = write_reports(self.reports, report, self.path) if report else False
        if changes is not None:
            more["changes"] = [each.as_dict() for each in changes]
        if self.as_json:
            print_json(**values, **more)
        elif not on_stdout:
            text()
            if changes:
                from workshop.cli.finding_text import print_changes

                print_changes(changes)
        raise typer.Exit(exit_code)
