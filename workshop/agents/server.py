"""The server: each tool is a command of the workshop, run on a script in the folder that the server was started in."""

import inspect
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from workshop.agents.command_run import CommandEnd, page_of, run_command
from workshop.errors import WorkshopError

MAX_ARGUMENTS, MAX_LENGTH = 64, 2000
"""Arguments of a script, at most, and characters of each."""

MAX_SECONDS = 600.0
"""Seconds, at most, that an agent may ask for."""

SLACK_S = 150.0
"""Seconds that a command may take beyond those it was given: a script takes time to start."""

INSTRUCTIONS = """Find out why a PyTorch training script is slow, and prove that an edit makes it faster without
changing what it computes. First `measure`: it names the line and the cause. Then edit a copy, and `compare` the old
script with the new one: only "done" says that the work is the same and the speedup is real; with a git revision as its
`base`, "faster", or "not slower than allowed". `lines` counts each line exactly, `trace` shows the device, `lesson`
explains. Paths are relative to the folder of the server."""

Tool = Callable[..., Awaitable[str]]


def server(root: Path, max_seconds: float = MAX_SECONDS, slack_s: float = SLACK_S) -> MCPServer:
    """Return the server of a folder.

    Args:
        root: the folder; scripts are named relative to it, and run in it.
        max_seconds: the longest time that an agent may ask for.
        slack_s: how much longer a command may take than it was asked to.
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
        path, words = _script(self.root, script), _words(arguments or [])
        return await self._run(self._limited(seconds), "measure", "--seconds", f"{seconds}", path, *words)

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
        path, words = _script(self.root, script), _words(arguments or [])
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/lines.lprof"
            recorded = ("record", "lines", "--seconds", f"{self._limited(seconds)}", "-o", file, "--", path, *words)
            end = await run_command(recorded, self.root, seconds + self.slack_s)
            if not Path(file).exists():
                raise WorkshopError(_why_nothing(end, seconds + self.slack_s))
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
        path, words = _script(self.root, new), _words(arguments or [])
        if (old is None) == (base is None):
            raise WorkshopError("name either old, another script, or base, a git revision")
        options = ("--budget", f"{self._limited(seconds)}")
        versions = ("--base", base, path) if base is not None else (_script(self.root, old or ""), path)
        return await self._run(seconds, "compare", *options, *versions, *words)

    async def trace(self, path: str, arguments: list[str] | None = None) -> str:
        """Say what the device waits for, from a trace of torch.profiler.

        `path` is a trace or a folder of traces, or a script, of which a few steps are recorded first.
        """
        words, place = _words(arguments or []), _inside(self.root, path)
        if place.suffix != ".py":
            return await self._run(0.0, "trace", str(place))
        with tempfile.TemporaryDirectory() as folder:
            recorded = ("record", "torch", "--stop", "-o", folder, "--", str(place), *words)
            end = await run_command(recorded, self.root, self.slack_s)
            if not any(Path(folder).rglob("*.json*")):
                raise WorkshopError(_why_nothing(end, self.slack_s))
            return await self._run(0.0, "trace", folder)

    async def lesson(self, name: str | None = None) -> str:
        """Return a lesson, such as part3, or what a word means, such as headroom; without a name, what there is."""
        if name is not None and not name.replace(" ", "").replace("-", "").isalnum():
            raise WorkshopError("name a part, such as part3, or a word, such as headroom")
        return await self._run(0.0, *(("show", "--", name) if name else ("list",)))

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


def _why_nothing(end: CommandEnd, limit_s: float) -> str:
    """Say why a recording came to nothing."""
    return (
        f"it was ended after {limit_s:.0f} s, before anything was recorded" if end.exit_code is None else end.last_error
    )


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
    if path.suffix != ".py" or not path.is_file():
        raise WorkshopError(f"{name} is no Python script; name a file that ends in .py")
    return str(path)


def _words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a script, if there are not too many.

    Raises:
        WorkshopError: there are, or one is too long, or has a NUL.
    """
    if len(arguments) > MAX_ARGUMENTS or any(len(each) > MAX_LENGTH or "\0" in each for each in arguments):
        raise WorkshopError(f"at most {MAX_ARGUMENTS} arguments of at most {MAX_LENGTH} characters are passed on")
    return list(arguments)
