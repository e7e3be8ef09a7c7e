"""Every command that the documentation tells people to type exists, and takes what it is given."""

import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

from workshop.cli.main import MODULES, command_line

PROJECT = Path(__file__).parents[2]
TEXTS = [PROJECT / "README.md", *sorted(PROJECT.glob("docs/*.md")), *sorted(PROJECT.glob("*/README.md"))]
LESSONS = sorted(PROJECT.glob("workshop/parts/*/README.md"))
NOTEBOOK = PROJECT / "profiling_experiment.ipynb"
WORKFLOW = PROJECT / "docs/gate-workflow.yml"
TASKS = PROJECT / "docs/vscode-tasks.json"

TYPED = re.compile(r"(?:workshop|kernprof|python|python3|torchrun) [^`]*")
SCRIPTS_OF_OTHERS = ("your_train.py", "old.py", "new.py", "mine.py")


def in_markdown(text: str) -> Iterator[str]:
    """Commands in fenced shell blocks, and those that are a whole code span."""
    blocks = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
    for language, block in blocks.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if language == "shell" or line.startswith("$ "):
                yield from (each.strip() for each in re.split(r" && |;", line.removeprefix("$ ")))
    for prose in blocks.split(text)[::3]:
        for span in re.findall(r"`([^`]+)`", " ".join(prose.split())):
            yield from (each.strip() for each in span.split(" && "))


def in_notebook(path: Path) -> Iterator[str]:
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield from in_markdown(text)
        else:
            yield from (line.strip().removeprefix("!") for line in text.splitlines() if line.strip().startswith("!"))


def in_workflow(path: Path) -> Iterator[str]:
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            yield from (each.strip() for each in step.get("run", "").split("||"))


def in_tasks(path: Path) -> Iterator[str]:
    return (task["command"] for task in json.loads(path.read_text())["tasks"])


def commands() -> list[tuple[str, str]]:
    found = [(path, command) for path in [*TEXTS, *LESSONS] for command in in_markdown(path.read_text())]
    found += [(NOTEBOOK, command) for command in in_notebook(NOTEBOOK)]
    found += [(WORKFLOW, command) for command in in_workflow(WORKFLOW)]
    found += [(TASKS, command) for command in in_tasks(TASKS)]
    typed = {(str(path.relative_to(PROJECT)), command) for path, command in found if TYPED.fullmatch(command)}
    return sorted(typed)


def words_of(command: str) -> list[str]:
    """As a shell has them, up to a pipe, a redirection or a comment."""
    words = shlex.split(re.sub(r"\$\([^)]*\)", "SOMETHING", command), comments=True)
    ends = [number for number, word in enumerate(words) if word in ("|", ">", "...", "…")]
    return words[: min(ends)] if ends else words


COMMAND_LINE = typer.main.get_command(command_line())


def check(words: list[str]) -> None:
    """Let the parser have it; nothing is run."""
    match words:
        case ["workshop", *rest]:
            parse(COMMAND_LINE, "workshop", rest)
        case ["kernprof", flags, *rest]:
            assert flags in ("-l", "-lv")
            check(["python", *rest])
        case ["python" | "python3", "-m", module, *_]:
            assert importlib.util.find_spec(module), module
        case ["torchrun", *rest] | ["python" | "python3", *rest] if script := [w for w in rest if w.endswith(".py")]:
            exists(script[0], rest[rest.index(script[0]) + 1 :])


def parse(command: Any, name: str, arguments: list[str]) -> None:
    if arguments in ([], ["--"]):
        return  # the name of a command, in a sentence about it
    context = command.make_context(name, list(arguments))
    if hasattr(command, "resolve_command"):  # it has commands of its own
        if rest := [*context._protected_args, *context.args]:
            sub_name, sub, sub_arguments = command.resolve_command(context, rest)
            parse(sub, sub_name, sub_arguments)
    elif context.params.get("command"):
        check(list(context.params["command"]))  # what is recorded is a command, too


def exists(script: str, arguments: list[str]) -> None:
    if script in SCRIPTS_OF_OTHERS:
        return
    folders = (PROJECT, PROJECT / "workshop/parts/part9")
    path = next((folder / script for folder in folders if (folder / script).is_file()), None)
    assert path, f"there is no {script}"
    for word in arguments:
        if word.startswith("--"):
            assert f'"{word.partition("=")[0]}"' in path.read_text(), f"{script} has no {word}"
        elif word.endswith(".py"):
            assert (PROJECT / word).is_file(), f"there is no {word}"


def wrong(command: str) -> str:
    """What the parser says of a command; nothing if it takes it."""
    try:
        check(words_of(command))
    except typer.Exit:
        pass  # --help
    except Exception as error:
        return str(error.format_message() if hasattr(error, "format_message") else error)
    return ""


def test_each_command_that_is_to_be_typed_is_taken() -> None:
    found = commands()
    assert len(found) > 60
    where = {str(path.relative_to(PROJECT)) for path in (WORKFLOW, TASKS, NOTEBOOK)}
    assert {of for of, _ in found} >= {"README.md", "workshop/parts/part3/README.md", *where}
    assert [f"{of}: {command}: {says}" for of, command in found if (says := wrong(command))] == []


def test_the_module_of_each_command_is_known() -> None:
    for typed in COMMAND_LINE.commands:  # type: ignore[attr-defined]
        alone = typer.main.get_command(command_line(typed)).commands  # type: ignore[attr-defined]
        assert set(alone) == {name for name, module in MODULES.items() if module == MODULES[typed]}


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name."""
    if hasattr(command, "commands"):
        for each, sub in command.commands.items():
            yield from leaves(sub, f"{name} {each}")
    else:
        yield name, command


def test_every_help_text_has_a_short_summary_and_an_example_that_parses() -> None:
    for name, command in leaves(COMMAND_LINE, "workshop"):
        assert len(command.help.split("\n\n")[0]) <= 60, f"{name}: a longer one is cut off in a terminal"
        [example] = re.findall(r"^ *Example: (.*)$", command.help, re.M)
        assert example.startswith(name)
        check(words_of(example))
