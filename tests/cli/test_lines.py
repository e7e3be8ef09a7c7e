"""The command `workshop lines` over real profiles, and over made-up ones where it follows from the times."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from conftest import Run
from made_lines import made_lines

SCRIPT = """\
import time


def load(number):
    time.sleep(0.004)
    return number, "a text that is so long that no terminal of eighty columns can have it beside the figures of a line"


class Loop:
    def run(self):
        for number in range(5):
            load(
                number
            )


if __name__ == "__main__":
    Loop().run()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with profiles of a script: of ours, and of kernprof."""
    folder = tmp_path_factory.mktemp("lines")
    (folder / "script.py").write_text(SCRIPT)
    for command in (
        ["workshop", "record", "lines", "--", "script.py"],
        ["kernprof", "-lp", "script.py", "-o", "k.lprof", "script.py"],
    ):
        subprocess.run([sys.executable, "-m", *command], cwd=folder, check=True, capture_output=True)
    (folder / "damaged.lprof").write_bytes((folder / "k.lprof").read_bytes()[:40])
    (folder / "text.lprof").write_text("no profile")
    (folder / "evil.lprof").write_bytes(b"cos\nsystem\n(S'touch evil'\ntR.")
    return folder


def test_hot_functions_come_first_in_80_columns(folder: Path) -> None:
    command = f"{sys.executable} -m workshop lines script.py.lprof --all"
    shown = pexpect.run(command, cwd=str(folder), env=os.environ | {"TERM": "xterm"}, dimensions=(40, 80)).decode()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "")
    assert max(map(len, plain.splitlines())) <= 80
    assert "…" in plain
    order = [plain.index(each) for each in ("Loop.run", "load  script.py:4", "script.py, outside of functions")]
    assert order == sorted(order), "the line of the script that calls Loop.run has no time of its own"
    assert "12-14     5" in plain, "a statement over three lines is one row"
    assert "\x1b[1;31m" in shown, "the hot lines are red"


def test_as_json_and_by_process(workshop: Run, folder: Path) -> None:
    functions = json.loads(workshop("lines", "--json", "--by", "process", folder / "script.py.lprof").stdout)[
        "functions"
    ]
    assert {each["process"] for each in functions} == {"main process"}
    load = next(each for each in functions if each["function"] == "load")
    assert [(row["line"], row["hits"]) for row in load["rows"]] == [(5, 5), (6, 5)]
    assert load["rows"][0]["seconds"] >= 0.02


def test_imports_do_not_bury_the_rest(workshop: Run, tmp_path: Path) -> None:
    """A module that is slow to import is one row in the end, without a share, and no reason to come first."""
    slow, beside, mine = (tmp_path / f"{name}.py" for name in ("slow", "beside", "mine"))
    sources = {
        mine: "import time\nimport beside\n\nbeside.work()\ntime.sleep(0.01)\n",
        beside: "import slow\n\n\ndef work():\n    return 1\n",
        slow: "import time\ntime.sleep(0.3)\n",
    }
    module = "<module>"
    counts = {
        (mine, module): {1: (1, 0.01), 2: (1, 300.5), 4: (1, 0.03), 5: (1, 10.0)},
        (beside, module): {1: (1, 300.3), 4: (1, 0.01)},
        (beside, "work"): {5: (1, 0.01)},
        (slow, module): {1: (1, 0.01), 2: (1, 300.0)},
    }
    made_lines(tmp_path / "mine.py.lprof", sources, counts)
    lines = workshop("lines", "mine.py.lprof").stdout.splitlines()
    heads = [line for line in lines if ", outside of functions" in line]
    assert [head.partition(",")[0] for head in heads] == ["slow.py", "mine.py"]
    of_mine = lines[lines.index(heads[1]) + 2 :]
    assert of_mine[0].endswith("time.sleep(0.01)")
    assert float(of_mine[0].split()[4].rstrip("%")) > 90
    assert of_mine[1].split()[2:] == ["once", "imports"]
    assert any(
        line.endswith("  import beside") for line in workshop("lines", "--all", "mine.py.lprof").stdout.splitlines()
    )


def test_one_function_of_kernprofs_profile(workshop: Run, folder: Path) -> None:
    printed = workshop("lines", "--function", "load", folder / "k.lprof").stdout
    assert "load  script.py:4" in printed
    assert "Loop" not in printed


def test_a_comparison(workshop: Run, folder: Path) -> None:
    printed = workshop("lines", "--diff", folder / "script.py.lprof", folder / "script.py.lprof").stdout
    assert "1 run before, 1 run after" in printed
    assert "folders with five runs each tell what is noise" in printed
    change = json.loads(workshop("lines", "--json", "--diff", folder / "script.py.lprof", folder / "k.lprof").stdout)
    kinds = {row["kind"] for each in change["functions"] for row in each["rows"] if each["after"] == ["load"]}
    assert kinds == {"same"}


@pytest.mark.parametrize(("each_us", "looks_slower"), [(0.3, True), (20.0, False)])
def test_a_loop_of_short_lines_looks_slower_than_it_is(
    each_us: float, looks_slower: bool, workshop: Run, tmp_path: Path
) -> None:
    file, ms = tmp_path / "loop.py", 20_000 * each_us / 1e3
    counts = {(file, "<module>"): {1: (1, 0.001), 2: (20_001, 6.0), 3: (20_000, ms)}}
    made_lines(tmp_path / "loop.lprof", {file: "total = 0\nfor _ in range(20000):\n    total += 1\n"}, counts)
    assert ("loops look slower than they are" in workshop("lines", "loop.lprof").stderr) == looks_slower


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing.lprof",), "there is no line profile nothing.lprof"),
        (("damaged.lprof",), "damaged.lprof is not a line profile"),
        (("text.lprof",), "text.lprof is not a line profile"),
        (("evil.lprof",), "evil.lprof is not a line profile (it holds a os.system)"),
        (("script.py",), "script.py is not a line profile"),
        ((".",), ". is a folder; name a line profile in it"),
        (("k.lprof", "--by", "process"), "k.lprof does not tell processes apart"),
        (("k.lprof", "--function", "absent"), "no function absent ran in k.lprof; those that did: Loop.run, load"),
        (("k.lprof", "k.lprof"), "name one line profile; --diff compares two"),
        (("--diff", "k.lprof", "k.lprof", "--function", "absent"), "no function absent ran in either"),
        (("script.py.lprof", "--html", "page.html", "--json"), "a page shows all processes"),
        (("--diff", "k.lprof", "text.lprof"), "text.lprof is not a line profile"),
        (("k.lprof", "--html", "nowhere/page.html"), "there is no folder nowhere"),
    ],
)
def test_bad_input(
    arguments: tuple[str, ...], says: str, workshop: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = workshop("lines", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "evil").exists()


def test_without_a_profile_it_says_how_to_make_one(
    workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = workshop("lines")
    assert (done.returncode, done.stderr.count("workshop record lines -- train.py")) == (2, 1)


def test_the_source_may_be_gone_or_edited(workshop: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("# another\n" + SCRIPT)
    for name in ("script.py.lprof", "k.lprof"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    os.utime(tmp_path / "k.lprof", (1, 1))
    edited = workshop("lines", tmp_path / "k.lprof")
    assert "was saved after k.lprof was written" in edited.stderr
    (tmp_path / "script.py").write_text(SCRIPT + "break\n")  # which can be parsed, but not be compiled
    assert "time.sleep(0.004)" in workshop("lines", tmp_path / "k.lprof").stdout
    (tmp_path / "script.py").unlink()
    assert "the source of" in workshop("lines", tmp_path / "k.lprof").stderr
    ours = workshop("lines", tmp_path / "script.py.lprof")
    assert "time.sleep(0.004)" in ours.stdout
    assert not [each for each in ours.stderr.splitlines() if not each.startswith("Busy machine: ")]


def test_a_comparison_in_the_formats_of_others(workshop: Run, tmp_path: Path) -> None:
    """The line that grew is reported, and not those that call its function."""
    file = tmp_path / "mine.py"
    source = "import time\ndef load():\n    time.sleep(0.001)\nfor _ in range(5):\n    load()\n"
    for name, grown in (("a", {}), ("b", {4: (5, 100.5)})):
        text = source.replace("0.001)", "0.001)\n    time.sleep(0.02)") if grown else source
        calls = {1: (1, 0.01), 2: (1, 0.01)} | {n + len(grown): (5, ms) for n, ms in ((4, 0.01), (5, 105.0))}
        counts = {(file, "<module>"): calls, (file, "load"): {3: (5, 5.3)} | grown}
        made_lines(tmp_path / f"{name}.lprof", {file: text}, counts)
    done = workshop("lines", "--diff", "--format", "github", "--format", "markdown=a.md", "a.lprof", "b.lprof")
    line, whole = done.stdout.splitlines()
    assert line.startswith("::warning file=mine.py,line=4,title=workshop%3A slower-line::0 s -> ")
    assert line.endswith(" ms in load: time.sleep(0.02)")
    assert "1 line slower::1 run before, 1 run after" in whole
    assert "`mine.py:4`" in (tmp_path / "a.md").read_text()
