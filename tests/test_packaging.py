"""The files that promise something about the project agree with each other."""

import re
import subprocess
import tomllib
from pathlib import Path

import yaml


def pyproject(project: Path) -> dict:
    return tomllib.loads((project / "pyproject.toml").read_text())


def test_environment_installs_this_project_and_nothing_of_its_own(project: Path) -> None:
    environment = yaml.safe_load((project / "environment.yml").read_text())
    python = pyproject(project)["project"]["requires-python"]
    assert environment["name"] == "profiling_workshop"
    assert environment["dependencies"] == [f"python{python}", "pip", {"pip": ["-e ."]}]


def test_readme_begins_with_the_two_commands_and_ci_runs_the_second(project: Path) -> None:
    first = (project / "README.md").read_text().splitlines()[1:3]
    assert first == [
        "pip install -e . && kernprof -lv train.py configs/example_config.py",
        "pip install -e '.[test]' && pytest",
    ]
    ci = (project / ".ci" / "run").read_text()
    pattern = re.search(r"grep --max-count=1 '(.*)' README.md", ci)
    assert pattern
    found = subprocess.run(["grep", "--max-count=1", pattern[1], project / "README.md"], capture_output=True, text=True)
    assert found.stdout.strip() == first[1]


def test_part1_is_the_untouched_script(project: Path) -> None:
    assert (project / "solutions" / "part1.py").read_bytes() == (project / "train.py").read_bytes()


def test_the_script_fits_on_a_few_screens(project: Path) -> None:
    assert len((project / "train.py").read_text().splitlines()) <= 150


def test_every_relative_link_in_the_readme_leads_somewhere(project: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (project / "README.md").read_text())
    assert links
    assert [link for link in links if not (project / link).exists()] == []
