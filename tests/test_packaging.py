"""The files that promise something about the project agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))


def pyproject(project: Path) -> dict:
    return tomllib.loads((project / "pyproject.toml").read_text())


def test_environment_installs_this_project_and_nothing_of_its_own(project: Path) -> None:
    environment = yaml.safe_load((project / "environment.yml").read_text())
    python = pyproject(project)["project"]["requires-python"]
    assert environment["name"] == "profiling_workshop"
    assert environment["dependencies"] == [f"python{python}", "pip", {"pip": ["-e ."]}]


def test_readme_begins_with_the_two_commands_and_ci_runs_the_second(project: Path) -> None:
    first = re.search(r"```shell\n(.*)\n(.*)\n```", (project / "README.md").read_text())
    assert first
    assert first[1] == "pip install -e . && kernprof -lv train.py configs/example_config.py"
    assert first[2] == "pip install -e '.[test]' && pytest"
    pattern = re.search(r"grep --max-count=1 '(.*)' README.md", (project / ".ci" / "run").read_text())
    assert pattern
    found = re.search(pattern[1], (project / "README.md").read_text(), re.MULTILINE)
    assert found
    assert found[0] == first[2]


def test_the_table_in_the_readme_is_of_this_script(project: Path) -> None:
    rows = re.findall(
        r"^ +(\d+) +\d+ +[\d.]+ +[\d.e+]+ +[\d.]+ {2}( *\S.*)$", (project / "README.md").read_text(), re.M
    )
    source = (project / "train.py").read_text().splitlines()
    assert len(rows) > 3
    assert [source[int(number) - 1] for number, _ in rows] == [line for _, line in rows]


def test_part1_is_the_untouched_script(project: Path) -> None:
    assert (project / "solutions" / "part1.py").read_bytes() == (project / "train.py").read_bytes()


def test_the_script_fits_on_a_few_screens(project: Path) -> None:
    assert len((project / "train.py").read_text().splitlines()) <= 150


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{path.name}" for path in DOCS)])
def test_every_relative_link_leads_somewhere(project: Path, name: str) -> None:
    page = project / name
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert links or name != "README.md"
    assert [link for link in links if not (page.parent / link).exists()] == []
