"""The tools for agents, asked by the official client over stdio, on real scripts."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("mcp")

import anyio
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from repositories import repository

from workshop.agents import MAX_CHARACTERS, CommandEnd, _in_pages, page_of, server

SCRIPT = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        time.sleep(0.02 if "slow" in sys.argv else 0.002)
        return torch.full((4,), float(index)), torch.tensor([float(index)])

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
for epoch in range(10_000):
    for inputs, targets in DataLoader(Numbers(), batch_size=5, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""
FASTER = SCRIPT.replace("0.02 if", "0.001 if")
NEVER = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(1000)  # FOLDER'])\n"

IMPATIENT = """
from pathlib import Path
from workshop.agents import server
server(Path.cwd(), max_seconds=30, slack_s=3).run("stdio")
"""
"""A server whose tools have less time."""

SERVER = """
import sys
sys.path.remove("")  # as where `workshop mcp` is typed
from workshop.cli.main import main
sys.argv = ["workshop", "mcp"]
main()
"""


Call = tuple[str, dict[str, Any]]


def ask(asked: MCPServer | StdioServerParameters, *calls: Call) -> list[tuple[bool, str]]:
    """Call tools of a server, and return whether each call failed, and the answer."""

    async def talk() -> list[tuple[bool, str]]:
        answers = []
        async with Client(asked) as client:
            for name, given in calls:
                done = await client.call_tool(name, given, read_timeout_seconds=240)
                answers.append((bool(done.is_error), "".join(each.text for each in done.content)))
        return answers

    return anyio.run(talk)


def started(folder: Path, code: str) -> StdioServerParameters:
    """A server in a process of its own, which is asked over its pipes."""
    return StdioServerParameters(command=sys.executable, args=["-c", code], cwd=str(folder), env=dict(os.environ))


def test_the_pages_of_an_answer_are_of_one_run() -> None:
    runs = []

    async def tool(script: str) -> str:
        runs.append(script)
        return f"run {len(runs)}\n" * 2000

    async def talk() -> list[str]:
        paged = _in_pages(tool)
        return [await paged(script="a.py", page=page) for page in (1, 2, 3)] + [await paged(script="b.py", page=2)]

    answers = anyio.run(talk)
    assert [set(re.findall(r"run \d", each)) for each in answers] == [{"run 1"}] * 3 + [{"run 2"}]
    assert runs == ["a.py", "b.py"]


def test_calls_that_come_at_once_wait_in_line_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed at once would take each other's cores. A command takes twice its seconds here; the limit is 1 s."""
    running, most, answers = 0, 0, dict[str, str]()
    for name in "abc":
        (tmp_path / f"{name}.py").write_text("")

    async def command(arguments: Sequence[str], *_: object) -> CommandEnd:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(2 * float(arguments[2]))
        running -= 1
        return CommandEnd(0, Path(arguments[3]).name, "")

    async def ask_one(made: MCPServer, name: str, seconds: float) -> None:
        try:
            answers[name] = str(await made.call_tool("measure", {"script": f"{name}.py", "seconds": seconds}))
        except ToolError as error:
            answers[name] = str(error)

    async def talk(seconds: Mapping[str, float]) -> None:
        made = server(tmp_path, max_seconds=1, slack_s=0)
        async with anyio.create_task_group() as calls:
            for name, each in seconds.items():
                calls.start_soon(ask_one, made, name, each)

    monkeypatch.setattr("workshop.agents.run_command", command)
    anyio.run(talk, dict.fromkeys("abc", 0.01))
    assert most == 1
    assert all(f"{name}.py" in answers[name] for name in "abc"), answers
    anyio.run(talk, {"a": 0.8, "b": 0.01})
    assert "other calls have been running for 1 s; ask again later" in answers["b"]


@pytest.mark.slow
def test_no_file_of_the_folder_stands_in_for_a_module(tmp_path: Path) -> None:
    (tmp_path / "statistics.py").write_text("open('ran', 'w')")
    [(failed, text)] = ask(started(tmp_path, SERVER), ("lesson", {"name": "headroom"}))
    assert not failed, text
    assert not list(tmp_path.rglob("ran"))


def test_what_is_offered_and_that_lessons_come_in_pages(tmp_path: Path) -> None:
    async def names() -> list[str]:
        async with Client(server(tmp_path)) as client:
            return [each.name for each in (await client.list_tools()).tools]

    assert anyio.run(names) == ["measure", "lines", "compare", "trace", "lesson"]
    (_, first), (_, second), (_, word), (_, every) = ask(
        server(tmp_path),
        ("lesson", {"name": "part9"}),
        ("lesson", {"name": "part9", "page": 2}),
        ("lesson", {"name": "headroom"}),
        ("lesson", {}),
    )
    assert "page=2" in first
    assert second not in first
    assert "headroom" in word.lower()
    assert "part11" in every
    assert max(map(len, (first, second, word, every))) <= MAX_CHARACTERS + 100


def test_bad_calls_are_refused_in_one_line_and_nothing_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "outside.py").write_text("open('ran', 'w')")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "notes.txt").write_text("")
    (folder / "mine.py").write_text("open('ran', 'w')")
    outside = str(tmp_path / "outside.py")
    expected: list[tuple[str, dict[str, Any], str]] = [
        ("measure", {"script": "../outside.py"}, "is outside of"),
        ("measure", {"script": outside}, "is outside of"),
        ("measure", {"script": "link.py"}, "is outside of"),
        ("lines", {"script": "absent.py"}, "there is no absent.py"),
        ("lines", {"script": "notes.txt"}, "is no Python script"),
        ("trace", {"path": ".."}, "is outside of"),
        ("measure", {"script": "--help"}, "there is no --help"),
        ("measure", {"script": "torchrun"}, "there is no torchrun"),
        ("measure", {"script": "mine.py", "seconds": 1e9}, "600 at most"),
        ("measure", {"script": "mine.py", "arguments": ["x"] * 65}, "at most 64 arguments"),
        ("measure", {"script": "mine.py", "arguments": "rm"}, "arguments"),
        ("compare", {"new": "mine.py"}, "name either old"),
        ("compare", {"new": "mine.py", "base": "--help"}, "no git repository"),
        ("lesson", {"name": "../../etc"}, "name a part"),
        ("lesson", {"name": "part99"}, "there is no part 'part99'"),
    ]
    answers = ask(server(folder), *[(name, given) for name, given, _ in expected])
    for (name, given, says), (failed, text) in zip(expected, answers, strict=True):
        assert failed, (name, given, text)
        assert says in text, (name, given, text)
    assert not list(tmp_path.rglob("ran"))


def test_what_each_tool_runs_and_that_its_answer_is_what_that_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def command(arguments: Sequence[str], root: Path, limit_s: float) -> CommandEnd:
        assert root == tmp_path
        ran.append(f"{limit_s:g} s: {' '.join(arguments)}")
        if "-o" in arguments:
            out = Path(arguments[arguments.index("-o") + 1])
            (out / "trace.json" if out.is_dir() else out).write_text("")
        return CommandEnd(3 if "other.py" in arguments else 0, f"answer {len(ran)}", "")

    monkeypatch.setattr("workshop.agents.run_command", command)
    for name in ("train.py", "other.py", "old.json"):
        (tmp_path / name).write_text("")
    answers = ask(
        server(tmp_path, slack_s=5),
        ("measure", {"script": "train.py", "arguments": ["slow"], "seconds": 3}),
        ("lines", {"script": "train.py", "seconds": 2, "function": "main"}),
        ("compare", {"old": "train.py", "new": "other.py", "arguments": ["slow"]}),
        ("compare", {"base": "HEAD", "new": "train.py", "seconds": 60}),
        ("trace", {"path": "old.json"}),
        ("trace", {"path": "train.py"}),
    )
    assert answers == [(False, f"answer {number}") for number in (1, 3, 4, 5, 6, 8)]
    expected = [
        r"8 s: measure --seconds 3.0 train.py slow",
        r"7 s: record lines --seconds 2.0 -o (\S+) -- train.py",
        r"5 s: lines --function main \S+\.lprof",
        r"125 s: compare --budget 120.0 train.py other.py slow",
        r"65 s: compare --budget 60.0 --base HEAD train.py",
        r"5 s: trace old.json",
        r"5 s: record torch --stop -o (\S+) -- train.py",
        r"5 s: trace \S+",
    ]
    for each, pattern in zip(ran, expected, strict=True):
        assert re.fullmatch(pattern, each.replace(f"{tmp_path}/", "")), each


@pytest.mark.slow
def test_tools_on_a_real_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    answers = ask(
        server(tmp_path),
        ("measure", {"script": "train.py", "arguments": ["slow"], "seconds": 3}),
        ("lines", {"script": "train.py", "arguments": ["slow"], "seconds": 2}),
        ("trace", {"path": "train.py"}),
    )
    assert [failed for failed, _ in answers] == [False] * 3, answers
    for expected, (_, text) in zip(["slow-item  train.py:10", "time.sleep(0.02", "device"], answers, strict=True):
        assert expected in text
        assert len(text) <= MAX_CHARACTERS + 100


@pytest.mark.acceptance
def test_two_scripts_are_compared(tmp_path: Path) -> None:
    repository(tmp_path, train=SCRIPT)
    (tmp_path / "faster.py").write_text(FASTER)
    answers = ask(server(tmp_path), ("compare", {"old": "train.py", "new": "faster.py", "arguments": ["slow"]}))
    (tmp_path / "train.py").write_text(FASTER)
    answers += ask(server(tmp_path), ("compare", {"base": "HEAD", "new": "train.py", "arguments": ["slow"]}))
    for expected, (failed, text) in zip(["faster.py: done", "train.py: faster"], answers, strict=True):
        assert not failed
        assert expected in text


@pytest.mark.slow
def test_a_script_that_never_ends_is_ended(tmp_path: Path) -> None:
    (tmp_path / "never.py").write_text(NEVER.replace("FOLDER", str(tmp_path)))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("measure", {"script": "never.py", "seconds": 1}),
        ("lines", {"script": "never.py", "seconds": 1}),
        ("compare", {"old": "never.py", "new": "never.py", "seconds": 10}),
    ]
    (failed, of_measure), (_, of_lines), (compare_failed, of_compare) = ask(started(tmp_path, IMPATIENT), *calls)
    assert failed
    assert "ended after 4 s" in of_measure
    assert compare_failed
    assert "ended after 13 s" in of_compare
    assert "ended after 4 s" in of_lines, "with the lines that ran until then, if there are any"
    left = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    assert not [command for command in left if any(str(tmp_path) in word for word in command)]


def test_a_page_is_short_and_together_the_pages_are_the_text() -> None:
    text = "\n".join(f"line {number} ████▍ of many" for number in range(1500)) + "\n" + "x" * 20_000
    pages = [page_of(text, number) for number in range(1, 12)]
    assert max(map(len, pages)) < MAX_CHARACTERS + 80
    assert pages[0].startswith("line 0 ")
    assert "line 1499 of many" in "".join(pages)
    assert "█" not in "".join(pages)
    assert pages[-1] == pages[-2], "a page that is not there is the last one"
