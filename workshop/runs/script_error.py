"""What is said of a script that ended, hung, is silent or cannot be parsed, and the end of what it printed."""

import os
import re
import shutil
import signal
import sys
import sysconfig
import threading
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from workshop import probe
from workshop.notebooks.cell_script import cells_to_run
from workshop.notebooks.magics import as_python
from workshop.notebooks.notebook_file import NOTEBOOK_SUFFIX, SCRIPT_SUFFIXES, SKIPPED, name_of, read
from workshop.probe import wire
from workshop.probe.activity import SUFFIX
from workshop.probe.observations import ProcessActivity

CONSEQUENCE = " by peer"
"""Torch says "Connection closed by peer", or "reset by peer", in a rank whose neighbour has ended."""

_COUNTED = {
    "batches": ("batches", "batch of a DataLoader", "batches of a DataLoader"),
    "forwards": ("forward", "forward pass", "forward passes"),
    "backwards": ("backward", "backward pass", "backward passes"),
    "optimizer_steps": ("optimizer", "step of a torch optimizer", "steps of a torch optimizer"),
}
"""What is counted of a process: the fields of `ProcessActivity`, each in short, and in words for one or several."""

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line \d+.*\n(?:    .*\n)*', re.MULTILINE)
_RANK = re.compile(r"\[rank(\d+)\]: ?")
_LOG_OF_TORCHRUN = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ")
_FIRST_FAILURE = re.compile(r"Root Cause .*?rank +: (\d+).*?exitcode +: (\S+)", re.DOTALL)
_OF_TORCHRUN = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
_START = "Traceback (most recent call last):"
_FOREIGN = (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), str(Path(probe.__file__).parent), "<frozen")


@dataclass(frozen=True)
class RunAlone:
    """How a script fared that was run once more, with nothing put into it."""

    seconds: float
    """How long it ran."""
    exit_code: int | None
    """Its exit code; None if it still ran, and was ended."""


class ScriptError(Exception):
    """A script ended, hung or ran away before it had done what was asked of it.

    `exit_code` is None if it was still running and has been killed; `output` is the end of what it printed; `script` is
    its name; `when` it ended, such as "after 3 steps", if it did by itself; `alone` is how it fares alone, if that was
    tried.
    """

    def __init__(self, message: str, exit_code: int | None, output: str, script: str, when: str = "") -> None:
        super().__init__(message)
        self.exit_code, self.output, self.script, self.when = exit_code, output, script, when
        self.alone: RunAlone | None = None

    @property
    def how(self) -> str:
        """How it ended, and when, without a subject."""
        if self.exit_code is None:
            return "was stopped"
        return f"{how_ended(self.exit_code)} {self.when}".strip()

    @property
    def about_alone(self) -> str:
        """Whether the script also crashes alone, in a sentence; empty if that is not known."""
        if self.alone is None:
            return ""
        if self.alone.exit_code:
            return f"Run once more without being measured, it crashes, too, with code {self.alone.exit_code}."
        seconds = f"{self.alone.seconds:.0f} s"
        how = f"came to its end after {seconds}" if self.alone.exit_code == 0 else f"ran for {seconds}"
        return f"Run once more without being measured, it {how} without a crash: the measurement may be to blame."

    @property
    def words(self) -> str:
        """What happened to a script while it was measured, and whether it also happens alone."""
        what = "crashed" if self.exit_code else "was stopped"
        return f"The script {what} while it was measured: {self}. {self.about_alone}".strip()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        alone = self.alone and asdict(self.alone)
        return {"exit_code": self.exit_code, "alone": alone, "words": self.words, "output": shorten(self.output)}


class UnseenError(ScriptError):
    """What a script does cannot be seen, which is not the script's fault."""


def how_ended(exit_code: int) -> str:
    """Return how a process ended, in a few words."""
    return f"was killed by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"ended with code {exit_code}"


def require_syntax(script: Path | str) -> None:
    """Do nothing for a file of Python that can be parsed, and for what is none, or not there.

    Raises:
        ScriptError: it, or a cell of it, cannot be parsed, as if it had been run.
        WorkshopError: it is a notebook without a cell that could be run.
    """
    path = Path(script)
    if path.suffix == NOTEBOOK_SUFFIX and path.is_file():
        notebook = read(path)
        for cell in cells_to_run(notebook):
            advice = "" if notebook.is_session else f"; leave the cell out with --cells or the tag {SKIPPED}"
            source, file = as_python(cell.source).source, notebook.file_of(cell)
            _require_syntax(source, file, name_of(path), f"{cell.name}, ", advice)
    elif path.suffix == ".py" and path.is_file():
        _require_syntax(path.read_bytes(), str(path.absolute()), path.name)


def _require_syntax(source: str | bytes, file: str, name: str, cell: str = "", advice: str = "") -> None:
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        said = "".join(traceback.format_exception_only(error))
        where = f" in {cell}line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ScriptError(f"it cannot be parsed: a syntax error{where}{advice}", 1, said, name) from None


def script_in(command: Sequence[str]) -> str:
    """Return the script that a command runs by this Python, or by torchrun; "" if that is not known."""
    program = shutil.which(command[0]) or command[0]
    is_known = program.endswith((*SCRIPT_SUFFIXES, "torchrun"))
    if not is_known and Path(program).resolve() != Path(sys.executable).resolve():
        return ""
    modules = [f"{name.replace('.', '/')}.py" for option, name in pairwise(command) if option == "-m"]
    return next((word for word in (*modules, *command) if word.endswith(SCRIPT_SUFFIXES) and Path(word).is_file()), "")


def describe_activities(folder: Path) -> str:
    """Return what the processes of a run have done with torch so far, and what was not seen of a training step."""
    seen = sorted(activities(folder), key=activity, reverse=True)
    if not seen:
        return "no process has loaded torch"
    if faults := [each for each in seen if each.fault]:
        return f"the workshop's probe failed in process {faults[0].pid}: {faults[0].fault}"
    active = [each for each in seen if activity(each)]
    if not active:
        where = f"process {seen[0].pid} ({seen[0].script})" if len(seen) == 1 else f"{len(seen)} processes"
        return f"torch is loaded in {where}, but no batch of a DataLoader, forward or backward pass was seen"
    named, others = active[:3], len(active[3:])
    return "; ".join(map(_describe, named)) + (f"; {others} other processes did likewise" if others else "")


def counted_activities(folder: Path) -> str:
    """Return the same in a few words, for a line of progress: it is cut at the width of the terminal."""
    seen = activities(folder)
    if not any(map(activity, seen)):
        return "torch is loaded, no training yet" if seen else "torch is not loaded yet"
    counts = {short: sum(getattr(each, field) for each in seen) for field, (short, *_) in _COUNTED.items()}
    if not counts["batches"]:  # many scripts make their own
        del counts["batches"]
    active = sum(bool(activity(each)) for each in seen)
    return ", ".join(f"{name} {count}" for name, count in counts.items()) + f", in {active} processes" * (active > 1)


def _describe(seen: ProcessActivity) -> str:
    counts = []
    for field, (_, one, several) in _COUNTED.items():
        count = getattr(seen, field)
        counts.append(f"{count or 'no'} {one if count < 2 else several}")
    where = f"; {seen.transformed} of the forward passes inside of torch.func (grad, vmap), where no model can be seen"
    return f"process {seen.pid} ({seen.script}): {', '.join(counts)}{where if seen.transformed else ''}"


def activity(seen: ProcessActivity) -> int:
    """Return how much a process was seen doing."""
    return sum(getattr(seen, field) for field in _COUNTED)


def activities(folder: Path) -> list[ProcessActivity]:
    """Return what each process has done that has loaded torch."""
    return [wire.decode(path.read_text(encoding="utf-8")) for path in folder.glob(f"*{SUFFIX}")]


class OutputTail:
    """Reads everything that a process prints, so that it never has to wait, and keeps the last `most_bytes` of it."""

    def __init__(self, stream: IO[bytes], most_bytes: int = 20_000) -> None:
        self._stream, self._most_bytes, self._end = stream, most_bytes, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Return the end of what was printed, once all writers have ended, or after a second."""
        self._thread.join(timeout=1.0)  # a process that has escaped may still hold the pipe open
        return self._end.decode(errors="replace")

    def _read(self) -> None:
        while chunk := os.read(self._stream.fileno(), 65536):
            self._end = (self._end + chunk)[-self._most_bytes :]


def shorten(output: str, most_lines: int = 12) -> str:
    """Return the last traceback without the frames of Python, its packages and the probe; else at most so many lines.

    Of several ranks, it is that of the rank that failed first, and not the one of torchrun, which follows.
    """
    # A progress bar goes back to the start of its line, or up one with an escape sequence.
    lines = [line.rpartition("\r")[2].removeprefix("\x1b[A") for line in output.split("\n")]
    said: dict[str, str] = {}
    for line in lines:
        if line.strip() and not _LOG_OF_TORCHRUN.match(line):
            of_rank = _RANK.match(line)
            number, words = (of_rank[1], line[of_rank.end() :]) if of_rank else ("", line)
            said[number] = f"{said.get(number, '')}{words}\n"
    failure = _FIRST_FAILURE.search(output)
    first, exit_code = failure.groups() if failure else ("", "")
    traces = {rank: trace for rank, text in said.items() if (trace := _last_trace(text))}
    if traces:
        guilty = min(traces, key=lambda each: (CONSEQUENCE in traces[each], each != first, not each))
        whose = guilty or first
        return (f"rank {whose}:\n" if whose else "") + traces[guilty]
    tail = said.get("", "").partition(_START)[0] if failure else said.get("", "")
    ended = [f"rank {first} ended with exit code {exit_code}"] * bool(first)
    return "\n".join([*tail.splitlines()[-most_lines:], *ended])


def _last_trace(text: str) -> str:
    """Return the last traceback in a text, shortened, apart from torchrun's own; an empty text if there is none."""
    traces = [trace for trace in text.split(_START)[1:] if _OF_TORCHRUN not in trace]
    if not traces:
        return ""
    own = _FRAME.sub(lambda frame: "" if frame["file"].startswith(_FOREIGN) else frame[0], traces[-1])
    return (_START + (own if '  File "' in own else traces[-1])).strip()
