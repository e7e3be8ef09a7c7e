"""Would the tests notice a fault? Small faults are planted at random places of the package, and tests run against each.

    python benchmarks/planted_faults.py choose            draw the places anew (they are kept in planted_faults.json)
    python benchmarks/planted_faults.py reach FOLDER      run the tests once, and note which of them come to which place
    python benchmarks/planted_faults.py try FOLDER        plant one after the other, and print which are caught
    python benchmarks/planted_faults.py all FOLDER        the last two

FOLDER is for copies of the project, and for what was found: `try` goes on where it has ended. Both run the tests of CI;
arguments for pytest stand after `--`, such as `-m slow`. The copies get an interpreter each, with the packages of this
one, that imports the project from there.

A fault is one of four kinds: a comparison that is turned round, a number that is off by a tenth (a small whole one by
one), a value that is returned empty, and an argument of a message that is left out. A test comes to a place if the
expression there is evaluated while it runs, in its own process or in one that it has started. What a shared fixture
comes to counts for every test that uses the fixture.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

PROJECT = Path(__file__).parents[1]
FAULTS = Path(__file__).with_suffix(".json")
SEED = 49
IN_A_PACKAGE = 3
TIME_LIMIT_S = 600
"""Seconds: a fault that keeps the tests longer than this is caught by it."""

OF_CI = ["-m", "not acceptance"]
"""Arguments of pytest: the tests that every change must pass."""

CAUGHT = (1, 2, 124, 137)
"""Exit codes: a test failed; a module of tests does not import; the tests did not end in time."""

TURNED = {
    ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip

NOTE_REACHED = """
import builtins
import os

noted = set()


def reached(number):
    row = f"{number}\\t{os.environ.get('REACHED_BY', '')}\\n"
    if row not in noted:
        noted.add(row)
        with open("NOTES", "a") as file:
            file.write(row)


builtins.reached = reached
"""
"""Imported by every interpreter of the instrumented copy, as it starts."""

NOTE_WHO = """
import os

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    os.environ["REACHED_BY"] = item.nodeid
    with open("NOTES", "a") as file:
        file.writelines(f"fixture {name}\\t{item.nodeid}\\n" for name in item.fixturenames)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    before = os.environ["REACHED_BY"]
    os.environ["REACHED_BY"] = f"fixture {fixturedef.argname}"
    try:
        return (yield)
    finally:
        os.environ["REACHED_BY"] = before
"""
"""A plugin of pytest that says who comes to a place: the running test, or a fixture, which others may share."""


@dataclass(frozen=True)
class Fault:
    """A place in the source, and what stands there instead."""

    number: int
    path: str
    function: str
    kind: str
    line: int
    """The line in which it was drawn; it is found again by function and source."""
    source: str
    """The expression."""
    turn: int
    """Which one it is of the same expressions in this function, from 0."""
    planted: str

    def place(self, text: str) -> tuple[int, int]:
        """Return between which offsets the expression stands now.

        Raises:
            LookupError: it is no longer there.
        """
        found = [
            each for each in places(text) if (each[0], each[1], each[4]) == (self.function, self.kind, self.source)
        ]
        if len(found) <= self.turn:
            raise LookupError(f"{self.path}: {self.source!r} is no longer in {self.function}")
        return found[self.turn][2:4]

    def put(self, tree: Path, new: str | None = None) -> None:
        """Write the fault, or something else, in its place in a copy of the project."""
        path = tree / self.path
        text = path.read_text()
        start, end = self.place(text)
        path.write_text(text[:start] + (new or f"({self.planted})") + text[end:])


def places(text: str) -> Iterator[tuple[str, str, int, int, str, str]]:
    """Yield the function, kind, first and last offset, and source of each place, and what would be planted there."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def span(node: ast.expr) -> tuple[int, int]:
        def offset(line: int, column: int) -> int:
            return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)

    def walk(node: ast.AST, function: str, runs: bool) -> Iterator[tuple[str, str, int, int, str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                for each in child.body:  # not its defaults and decorators, which are evaluated at the import
                    name = f"{function}.{child.name}".lstrip(".")
                    yield from walk(ast.Module([each], []), name, not isinstance(child, ast.ClassDef))
                continue
            for kind, expression, planted in faults_at(child) if runs else ():
                start, end = span(expression)
                if planted != text[start:end] and reads_as(text[start:end], expression):
                    yield function, kind, start, end, text[start:end], planted
            yield from walk(child, function, runs)

    yield from walk(ast.parse(text), "", False)


def reads_as(source: str, expression: ast.expr) -> bool:
    """Return whether the source is that of the expression: in an f-string, Python 3.11 gives wrong places."""
    try:
        return ast.unparse(ast.parse(f"({source})", mode="eval").body) == ast.unparse(expression)
    except SyntaxError:
        return False


def faults_at(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    """Yield the kind of each fault that can be planted at a node, the expression, and what it becomes."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield "comparison", node, f"({left}) {TURNED[type(node.ops[0])]} ({right})"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value * 1.1 if isinstance(node.value, float) or abs(node.value) >= 10 else node.value + 1
        yield "number", node, repr(value if isinstance(node.value, float) else round(value))
    if isinstance(node, ast.Return) and isinstance(node.value, (ast.List, ast.ListComp, ast.Dict, ast.DictComp)):
        yield "emptied", node.value, "[]" if isinstance(node.value, (ast.List, ast.ListComp)) else "{}"
    if isinstance(node, ast.Return) and isinstance(node.value, (ast.Tuple, ast.Call)):
        called = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else "tuple"
        if called in ("tuple", "list", "sorted", "dict", "set") and isinstance(node.value, ast.Call):
            yield "emptied", node.value, f"{'list' if called == 'sorted' else called}()"
    if isinstance(node, ast.Call) and ast.unparse(node.func) in MESSAGES and node.keywords:
        shorter = ast.Call(node.func, node.args, node.keywords[:-1])
        yield "message", node, ast.unparse(shorter)


def messages() -> set[str]:
    """Return the names of all messages and events that cross a process."""
    trees = [ast.parse((PROJECT / "workshop/probe" / name).read_text()) for name in ("messages.py", "events.py")]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


MESSAGES = messages()


def choose() -> list[Fault]:
    """Draw the places: as many in each package, of as many kinds as there are."""
    packages: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted((PROJECT / "workshop").rglob("*.py")):
        inner = path.relative_to(PROJECT / "workshop")
        if "cases" not in inner.parts and path.name != "__main__.py":
            packages[inner.parts[0] if len(inner.parts) > 1 else ""].append(path)
    dice, found = random.Random(SEED), list[Fault]()
    for _, paths in sorted(packages.items()):
        at = defaultdict(list)
        for path in paths:
            text, turns = path.read_text(), Counter[tuple[str, str, str]]()
            for function, kind, start, _, source, planted in places(text):
                turn = turns[function, kind, source]
                turns[function, kind, source] += 1
                line = text.count("\n", 0, start) + 1
                at[kind].append(Fault(0, str(path.relative_to(PROJECT)), function, kind, line, source, turn, planted))
        kinds = sorted(at)
        dice.shuffle(kinds)
        for number in range(IN_A_PACKAGE):
            kind = kinds[number % len(kinds)]
            found.append(at[kind].pop(dice.randrange(len(at[kind]))))
            if not at[kind]:
                kinds.remove(kind)
    return [Fault(**asdict(fault) | {"number": number}) for number, fault in enumerate(found)]


def copy(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a copy of the project as it stands, and an interpreter that imports it; return both."""
    tree, environment = folder / name / "tree", folder / name / "venv"
    shutil.rmtree(folder / name, ignore_errors=True)
    tree.mkdir(parents=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=PROJECT, capture_output=True, text=True
    )
    for file in listed.stdout.splitlines():
        if (PROJECT / file).is_file():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / file, tree / file, follow_symlinks=False)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    # Hard links: gigabytes of packages in a second. What is written anew is unlinked first.
    subprocess.run(["cp", "-al", sys.prefix, environment], check=True)
    for script in (environment / "bin").iterdir():
        if script.is_file() and not script.is_symlink() and (text := script.read_bytes()).startswith(b"#!"):
            mode = script.stat().st_mode
            script.unlink()
            script.write_bytes(text.replace(sys.prefix.encode(), str(environment).encode()))
            script.chmod(mode)
    for packages in environment.glob("lib/*/site-packages"):
        for old in packages.glob("__editable__*"):
            old.unlink()
        (packages / "__editable__.profiling_workshop.pth").write_text(f"{tree}\n")
    return tree, environment / "bin" / "python"


def pytest(python: Path, tree: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run pytest in a copy, and return its exit code and what it printed."""
    variables = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "CI": "1", **environment}
    command = ["timeout", "-k", "10", str(TIME_LIMIT_S), str(python), "-m", "pytest", *arguments]
    done = subprocess.run(
        command if arguments[:1] == ("-x",) else command[4:], cwd=tree, env=variables, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def reach(folder: Path, arguments: list[str]) -> None:
    """Run the suite once in an instrumented copy, and keep which tests came to which place, and how long each took."""
    faults = load()
    tree, python = copy(folder, "reach")
    notes, times = folder / "notes.txt", folder / "junit.xml"
    notes.unlink(missing_ok=True)
    for packages in python.parents[1].glob("lib/*/site-packages"):
        (packages / "note_reached.py").write_text(NOTE_REACHED.replace("NOTES", str(notes)))
        (packages / "note_reached.pth").write_text("import note_reached\n")
        (packages / "note_who.py").write_text(NOTE_WHO.replace("NOTES", str(notes)))
    for fault in faults:
        text = (tree / fault.path).read_text()
        start, end = fault.place(text)
        fault.put(tree, f"(reached({fault.number}), ({text[start:end]}))[1]")
    code, printed = pytest(python, tree, "-p", "note_who", "--junitxml", str(times), *arguments)
    print(printed[-3000:], code)


def load() -> list[Fault]:
    """Return the faults that were drawn."""
    return [Fault(**each) for each in json.loads(FAULTS.read_text())]


def tests_at(folder: Path) -> dict[int, list[str]]:
    """Return the tests that come to each place and passed without a fault, the quickest first."""
    came: defaultdict[str, set[str]] = defaultdict(set)
    for row in (folder / "notes.txt").read_text().splitlines():
        to, _, by = row.partition("\t")
        came[to].add(by)
    seconds = durations(folder)

    def tests(to: str) -> set[str]:
        shared = [came[by] for by in came[to] if by.startswith("fixture ")]
        return {by for by in came[to] if "::" in by}.union(*shared) & seconds.keys()

    return {fault.number: sorted(tests(str(fault.number)), key=seconds.__getitem__) for fault in load()}


def durations(folder: Path) -> dict[str, float]:
    """Return the seconds of each test that passed in the recorded run."""
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": float(case.get("time", 1.0))
        for case in ElementTree.parse(folder / "junit.xml").iter("testcase")
        if all(case.find(what) is None for what in ("failure", "error", "skipped"))
    }


def try_all(folder: Path, arguments: list[str], only: set[int], side_by_side: int) -> None:
    """Plant each fault in a copy of its own, run the tests that come to it, and print what was caught."""
    copies = [copy(folder, f"copy{number}") for number in range(side_by_side)]
    faults = [fault for fault in load() if not only or fault.number in only]
    at = tests_at(folder)
    out = folder / "caught.jsonl"
    done = {json.loads(line)["number"] for line in out.read_text().splitlines()} if out.exists() else set()

    def attempt(fault: Fault) -> None:
        tree, python = copies.pop()
        began = time.monotonic()
        untouched = (tree / fault.path).read_text()
        try:
            tests = at.get(fault.number, [])
            caught, by = False, ""
            if tests:
                fault.put(tree)
                code, printed = pytest(python, tree, "-x", "-q", "-n0", *arguments, *tests)
                caught = code in CAUGHT
                named = [
                    line for line in printed.splitlines() if line.startswith(("FAILED ", "ERROR ")) and "::" in line
                ]
                by = named[0] if named else f"exit code {code}"
        finally:
            (tree / fault.path).write_text(untouched)
            copies.append((tree, python))
        row = {"number": fault.number, "caught": caught, "tests": len(tests), "by": by if caught else ""}
        row["seconds"] = round(time.monotonic() - began, 1)
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)

    with ThreadPoolExecutor(side_by_side) as threads:
        list(threads.map(attempt, [fault for fault in faults if fault.number not in done]))


def print_table(folder: Path) -> None:
    """Print what became of each fault."""
    rows = [json.loads(line) for line in (folder / "caught.jsonl").read_text().splitlines()]
    faults = {fault.number: fault for fault in load()}
    print("| fault | planted in | kind | tests | caught by |\n|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: row["number"]):
        fault = faults[row["number"]]
        by = row["by"].removeprefix("FAILED ").partition(" - ")[0] if row["caught"] else "**not caught**"
        print(f"| {fault.number} | {fault.path}:{fault.line} | {fault.kind} | {row['tests']} | {by} |")
    print(f"\n{sum(row['caught'] for row in rows)} of {len(rows)} are caught.")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choose", "reach", "try", "all"])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("faults"))
    parser.add_argument("--only", default="", help="the numbers of some faults, such as 3,7")
    parser.add_argument("--side-by-side", type=int, default=2)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, for_pytest = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :] or OF_CI
    folder = options.folder.resolve()
    if options.what == "choose":
        FAULTS.write_text(json.dumps([asdict(fault) for fault in choose()], indent=1) + "\n")
    if options.what in ("reach", "all"):
        reach(folder, for_pytest)
    if options.what in ("try", "all"):
        only = {int(number) for number in options.only.split(",") if number}
        try_all(folder, for_pytest, only, options.side_by_side)
        print_table(folder)


if __name__ == "__main__":
    main()
