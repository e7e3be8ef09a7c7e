"""The instruments as tools for agents, over MCP: each is a command of the workshop, run on a script in one folder."""

import inspect
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import anyio
import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from workshop.errors import WorkshopError
from workshop.notebooks.notebook_file import SCRIPT_SUFFIXES
from workshop.runs.process_tree import LOOK_EVERY_S, end, tree_of

MAX_ARGUMENTS, MAX_LENGTH = 64, 2000
"""Arguments of a script, at most, and characters of each."""

MAX_CHARACTERS = 5500
"""Characters, at most, of an answer. A token of such text, with its figures and names, has about three, so this is less
than 2,000 tokens."""

MARK_VARIABLE = "WORKSHOP_COMMAND"
"""All processes of a command have this variable in their environment, by which they are found in the end."""

INSTRUCTIONS = """Find out why a PyTorch training script is slow, and prove that an edit makes it faster without
changing what it computes. First `measure`: it names the line and the cause. Then edit a copy, and `compare` the old
script with the new one: only "done" says that the work is the same and the speedup is real; with a git revision as its
`base`, "faster", or "not slower than allowed". `lines` counts each line exactly, `trace` shows the device, `lesson`
explains. Paths are relative to the folder of the server."""

Tool = Callable[..., Awaitable[str]]


def server(root: Path, max_seconds: float = 600.0, slack_s: float = 150.0) -> MCPServer:
    """Return the server of a folder.

    Args:
        root: the folder; scripts are named relative to it, and run in it.
        max_seconds: the longest time that an agent may ask for.
        slack_s: how much longer a command may take than it was asked to: a script takes time to start.
    """
    found, tools = MCPServer("workshop", instructions=INSTRUCTIONS), Tools(root, max_seconds, slack_s)
    alone, turn = (tools.measure, tools.lines, tools.compare, tools.trace), anyio.Lock()
    for each in (*(_in_turn(tool, turn, max_seconds + slack_s) for tool in alone), tools.lesson):
        found.tool(structured_output=False)(_in_pages(each))
    return found


def _in_turn(tool: Tool, turn: anyio.Lock, limit_s: float) -> Tool:
    """Have a tool wait until no other one runs, but not for ever: what is timed at once takes each other's cores."""

    @wraps(tool)
    async def answer(**named: object) -> str:
        try:
            with anyio.fail_after(limit_s):
                await turn.acquire()
        except TimeoutError:
            raise WorkshopError(f"other calls have been running for {limit_s:.0f} s; ask again later") from None
        try:
            return await tool(**named)
        finally:
            turn.release()

    return answer


def _in_pages(tool: Tool) -> Tool:
    """Have the answer of a tool come in pages, which are all of one run, and its errors in one line."""
    kept: dict[str, str] = {}

    @wraps(tool)
    async def answer(page: int = 1, **named: object) -> str:
        asked = repr(named)
        try:
            text = kept[asked] if page > 1 and asked in kept else await tool(**named)
        except WorkshopError as error:
            raise ToolError(str(error)) from None
        kept.clear()
        kept[asked] = text
        return page_of(text, page)

    paged = inspect.Parameter("page", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=1, annotation=int)
    offered: Any = answer  # its signature is what an agent reads
    offered.__signature__ = inspect.Signature([*inspect.signature(tool).parameters.values(), paged])
    return answer


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended."""

    exit_code: int | None
    """None if its time was over."""
    output: str
    errors: str

    @property
    def last_error(self) -> str:
        """The last line that it printed to stderr."""
        return (self.errors.strip().splitlines() or ["it said nothing"])[-1]


@dataclass(frozen=True)
class Tools:
    """What an agent can ask for in a folder; the docstrings are what it reads."""

    root: Path
    max_seconds: float
    slack_s: float

    async def measure(self, script: str, arguments: list[str] | None = None, seconds: float = 20.0) -> str:
        """Name the bottlenecks of a training script: the line, the cause, and the potential speedup.

        The script runs unchanged for about `seconds` and is then ended; some of its batches are repeated. Takes one
        minute or two.
        """
        command = _script(self.root, script), *_words(arguments)
        return await self._run(self._limited(seconds), "measure", "--seconds", f"{seconds}", *command)

    async def lines(
        self,
        script: str,
        arguments: list[str] | None = None,
        seconds: float = 20.0,
        function: str | None = None,
    ) -> str:
        """Count how often each line of your code runs and how long it takes, in all processes of a script.

        The script is ended `seconds` after its first training step. `function` shows one function alone.
        """
        command, options = (_script(self.root, script), *_words(arguments)), ("--seconds", f"{self._limited(seconds)}")
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/lines.lprof"
            end = await self._recorded(seconds, "lines", *options, "-o", file, "--", *command, to=Path(folder))
            only = ("--function", function) if function else ()
            early = ""
            if end.exit_code is None:
                early = f"It was ended after {seconds + self.slack_s:.0f} s, without a training step.\n"
            elif end.exit_code:
                early = f"The script ended with exit code {end.exit_code}. This is what ran until then.\n"
            return early + await self._run(0.0, "lines", *only, file)

    async def compare(
        self,
        new: str,
        old: str | None = None,
        base: str | None = None,
        arguments: list[str] | None = None,
        seconds: float = 120.0,
    ) -> str:
        """Judge whether `new` does the same work as another version of it, and how much faster it is.

        Name either another script (`old`), or a git revision (`base`) at which the same script is compared; then it is
        asked whether it is no slower. Takes up to `seconds`.
        """
        path, words = _script(self.root, new), _words(arguments)
        if (old is None) == (base is None):
            raise WorkshopError("name either old, another script, or base, a git revision")
        options = ("--budget", f"{self._limited(seconds)}")
        versions = ("--base", base, path) if base is not None else (_script(self.root, old or ""), path)
        return await self._run(seconds, "compare", *options, *versions, *words)

    async def trace(self, path: str, arguments: list[str] | None = None) -> str:
        """Say what the device waits for, from a trace of torch.profiler.

        `path` is a trace or a folder of traces, or a script, of which a few steps are recorded first.
        """
        words, place = _words(arguments), _inside(self.root, path)
        if place.suffix not in SCRIPT_SUFFIXES:
            return await self._run(0.0, "trace", str(place))
        with tempfile.TemporaryDirectory() as folder:
            await self._recorded(0.0, "torch", "--stop", "-o", folder, "--", str(place), *words, to=Path(folder))
            return await self._run(0.0, "trace", folder)

    async def lesson(self, name: str | None = None) -> str:
        """Return a lesson, such as part3, or what a word means, such as headroom; without a name, what there is."""
        if name is not None and not name.replace(" ", "").replace("-", "").isalnum():
            raise WorkshopError("name a part, such as part3, or a word, such as headroom")
        return await self._run(0.0, *(("show", "--", name) if name else ("list",)))

    async def _recorded(self, seconds: float, *arguments: str, to: Path) -> CommandEnd:
        """Run a recorder that writes to a folder; it is an error if there is no recording then."""
        limit_s = seconds + self.slack_s
        end = await run_command(("record", *arguments), self.root, limit_s)
        if not [*to.rglob("*.lprof"), *to.rglob("*.json*")]:
            early = f"it was ended after {limit_s:.0f} s, before anything was recorded"
            raise WorkshopError(early if end.exit_code is None else end.last_error)
        return end

    async def _run(self, seconds: float, *arguments: str) -> str:
        """Run a command and return what it prints; wrong usage, and a time that is over, are errors."""
        end = await run_command(arguments, self.root, seconds + self.slack_s)
        if end.exit_code is None:
            raise WorkshopError(
                f"it was ended after {seconds + self.slack_s:.0f} s, which is the limit: {end.last_error}"
            )
        if end.exit_code not in (0, 1, 3, 4, 5) or not end.output.strip():
            raise WorkshopError(end.last_error)
        return end.output

    def _limited(self, seconds: float) -> float:
        if not 0 < seconds <= self.max_seconds:
            raise WorkshopError(f"seconds are more than 0, and {self.max_seconds:g} at most")
        return seconds


def _inside(root: Path, name: str) -> Path:
    """Return the path of a file or folder in the root, whose symbolic links are followed.

    Raises:
        WorkshopError: it leads out of the root, or there is nothing.
    """
    if not name or "\0" in name:
        raise WorkshopError("name a file in the folder of this server")
    top = Path(os.path.realpath(root))
    path = Path(os.path.realpath(top / name))
    if not path.is_relative_to(top):
        raise WorkshopError(f"{name} is outside of {top}; only what is in this folder can be named")
    if not path.exists():
        raise WorkshopError(f"there is no {name} in {top}")
    return path


def _script(root: Path, name: str) -> str:
    """Return the path of a Python script in the root, as it is handed to a command: absolute, so it is no option.

    Raises:
        WorkshopError: it is outside, or no script.
    """
    path = _inside(root, name)
    if path.suffix not in SCRIPT_SUFFIXES or not path.is_file():
        raise WorkshopError(f"{name} is no Python script; name a file that ends in {' or '.join(SCRIPT_SUFFIXES)}")
    return str(path)


def _words(arguments: Sequence[str] | None) -> Sequence[str]:
    """Return the arguments of a script, if there are not too many.

    Raises:
        WorkshopError: there are, or one is too long, or has a NUL.
    """
    arguments = arguments or []
    if len(arguments) > MAX_ARGUMENTS or any(len(each) > MAX_LENGTH or "\0" in each for each in arguments):
        raise WorkshopError(f"at most {MAX_ARGUMENTS} arguments of at most {MAX_LENGTH} characters are passed on")
    return arguments


# A command, in a process of its own


async def run_command(arguments: Sequence[str], folder: Path, limit_s: float) -> CommandEnd:
    """Run `workshop` with arguments, without a shell, and end it after some time or when the call is cancelled.

    Args:
        arguments: those of the command.
        folder: the folder it runs in.
        limit_s: the seconds that it may take.
    """
    mark = uuid4().hex
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "workshop", *arguments],  # -P: no file of this folder stands in for a module
            cwd=folder,
            env={**os.environ, "NO_COLOR": "1", MARK_VARIABLE: mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            with anyio.move_on_after(limit_s):
                while process.poll() is None:
                    await anyio.sleep(LOOK_EVERY_S)
            code = process.poll()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, mark)
        return CommandEnd(code, _text(output), _text(errors))


async def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a command that still runs: told to, it has 20 s to end what it has started; what is left is killed."""
    if process.poll() is None:
        process.terminate()
        with anyio.move_on_after(20.0):
            while process.poll() is None:
                await anyio.sleep(LOOK_EVERY_S)
    await anyio.to_thread.run_sync(lambda: end(lambda: tree_of(process, mark), grace_s=0))
    process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


_BARS = re.compile(r" *[█▏▎▍▌▋▊▉]+")


def page_of(text: str, number: int = 1) -> str:
    """Return a part of a text that is short enough for an answer, and say which one it is; bars are left out.

    Args:
        text: the text.
        number: the number of the part, from 1.
    """
    text = _BARS.sub("", text).strip()
    pages: list[str] = [""]
    for line in text.splitlines(keepends=True):
        for start in range(0, len(line), MAX_CHARACTERS):
            piece = line[start : start + MAX_CHARACTERS]
            if len(pages[-1]) + len(piece) > MAX_CHARACTERS:
                pages.append("")
            pages[-1] += piece
    number = min(max(number, 1), len(pages))
    more = (
        f"\n\n(page {number} of {len(pages)}; ask for the next with page={number + 1})" if number < len(pages) else ""
    )
    return pages[number - 1].rstrip() + more
