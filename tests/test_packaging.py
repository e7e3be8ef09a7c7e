"""The files that promise something about the project agree with each other."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from workshop.cli.main import command_line
from workshop.cli.options import INSTRUMENTS
from workshop.course import glossary
from workshop.parts import all_parts
from workshop.parts.case import case_names

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))


def test_environment_installs_this_project_and_nothing_of_its_own(project: Path) -> None:
    environment = yaml.safe_load((project / "environment.yml").read_text())
    python = tomllib.loads((project / "pyproject.toml").read_text())["project"]["requires-python"]
    assert environment["name"] == "profiling_workshop"
    assert environment["dependencies"] == [f"python{python}", "pip", {"pip": ["-e ."]}]


def test_every_file_of_the_package_is_installed_and_its_types_are_known(project: Path) -> None:
    setup = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["setuptools"]
    package = project / "workshop"
    installed = {path for pattern in setup["package-data"]["workshop"] for path in package.glob(pattern)}
    installed |= {path for path in package.rglob("*.py") if (path.parent / "__init__.py").exists()}
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert files - installed == set()
    assert package / "py.typed" in files


def test_readme_begins_with_three_commands_and_ci_runs_the_last(project: Path) -> None:
    readme = (project / "README.md").read_text()
    [clone, install, test] = re.findall(r"```shell\n(.*)\n(.*)\n(.*)\n```", readme)[0]
    assert clone == "git clone ADDRESS profiling-workshop && cd profiling-workshop", "no copy of it knows where it lies"
    assert install == "pip install -e . && kernprof -lv train.py configs/example_config.py"
    assert test == "pip install -e '.[test]' && pytest"
    [pattern] = re.findall(r"grep --max-count=1 '(.*)' README.md", (project / ".ci" / "run").read_text())
    assert re.findall(pattern, readme, re.MULTILINE)[0] == test


def test_the_table_in_the_readme_is_of_this_script(project: Path) -> None:
    row = r"^ +(\d+) +\d+ +[\d.]+ +[\d.e+]+ +[\d.]+ {2}( *\S.*)$"
    rows = re.findall(row, (project / "README.md").read_text(), re.MULTILINE)
    source = (project / "train.py").read_text().splitlines()
    assert len(rows) > 3
    assert [source[int(number) - 1] for number, _ in rows] == [line for _, line in rows]


def test_the_script_is_that_of_part1_and_fits_on_a_few_screens(project: Path) -> None:
    script = (project / "train.py").read_text()
    assert script == (project / "solutions" / "part1.py").read_text()
    assert len(script.splitlines()) <= 150


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{path.name}" for path in DOCS)]
)
def test_every_relative_link_leads_somewhere(project: Path, name: str) -> None:
    page = project / name
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert links or name != "README.md"
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_answers_of_part11_are_a_click_behind_its_lesson(project: Path) -> None:
    for page in [project / "README.md", *(part.lesson for part in all_parts())]:
        links = re.findall(r"\[([^]]+)\]\([^)]*docs/part11\.md\)", page.read_text())
        assert [text for text in links if "answers" not in text] == []
    assert "docs/part11.md" not in (project / "README.md").read_text()


def test_each_lesson_ends_with_a_link_to_the_next(project: Path) -> None:
    parts = all_parts()
    for part, following in itertools.pairwise(parts):
        text = " ".join(part.lesson.read_text().split())
        parts_linked = re.findall(r"\[Part (\d+): [^]]+\]\(\.\./(part\d+)/README\.md\)", text)
        assert parts_linked[-1] == (following.number, following.name)
    own_script = [part.number for part in parts if part.own_script or case_names(part)]
    assert f"parts {', '.join(own_script[:-1])} and {own_script[-1]} bring" in (project / "README.md").read_text()


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{path.name}" for path in DOCS)])
def test_every_link_to_a_section_leads_to_one(project: Path, name: str) -> None:
    page = project / name
    for path, section in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text()):
        headings = re.findall(r"^#+ (.+)$", (page.parent / path if path else page).read_text(), re.MULTILINE)
        assert section in [glossary.anchor(re.sub(r"[`*]", "", each)) for each in headings], section


def test_the_first_screen_of_the_tools_answers_which_instrument(project: Path) -> None:
    first, _, _ = (project / "docs" / "tools.md").read_text().partition("\n## ")
    table = [line for line in first.splitlines() if line.startswith("| ")]
    typed = set(re.findall(r"workshop (?:record )?([a-z-]+)", "\n".join(row.split("|")[2] for row in table)))
    commands = typer.main.get_command(command_line()).commands  # type: ignore[attr-defined]
    instruments = {name for name, command in commands.items() if command.rich_help_panel == INSTRUMENTS}
    assert instruments - typed == {"record", "flamegraph"}, "whose recordings are named, and what shows them first"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/how-it-works.md"])
def test_every_path_that_is_named_exists(project: Path, name: str) -> None:
    named = re.findall(r"`((?:workshop|tests|docs|solutions|benchmarks|\.ci)/[^`\s]*)`", (project / name).read_text())
    assert len(named) > 3
    assert [path for path in named if not any(project.glob(path.rstrip("/")))] == []
