"""py-spy over any command, and a recording that says which process is which."""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from workshop.errors import CrashError, WorkshopError, first_line
from workshop.notebooks.cell_script import runnable
from workshop.notebooks.notebook_file import NOTEBOOK_SUFFIX, cell_of
from workshop.profiles import stacks
from workshop.profiles.stacks import Process, Stack
from workshop.recording.output_paths import output_path
from workshop.recording.run import RecordedRun, Run, TimeLimit, job_script, require_command
from workshop.runs import load_beside
from workshop.runs.machine import find_executable
from workshop.runs.process_tree import ProcessTree, command_of
from workshop.runs.script import Say, probe_environment
from workshop.runs.script_error import script_in

FOLDER = "py-spy-outputs/"
"""The folder for recordings, where no other is named."""

MARK = "workshop-record"
"""The name of the shell around a command, by which the recording shows it."""

CELL_RUNNER = "workshop/probe/cell_runner.py"
"""The path, as py-spy shortens it, of what runs the cells of a notebook."""

# py-spy mixes its own output with the command's, and does not tell how the command ended. So its output goes to a file,
# the command's past it to where it belongs, and the exit code to another file. As soon as no Python is left, py-spy
# kills its child: that is a shell around the one that waits for the command. The traps let both outlive Ctrl-C. In
# parentheses, the command has its redirections for itself: "Terminated" is the shell's word, and goes to the file.
AROUND_PY_SPY = 'exec 7>&1 8>&2 9>"$1" 1>"$2" 2>&1; shift 2; exec "$@"'
TO_BE_KILLED = 'trap : INT TERM; sh -c "$0" "$@"; :'
AROUND_COMMAND = 'trap : INT TERM; ("$@" 1>&7 2>&8 7>&- 8>&- 9>&-); echo $? >&9'
NO_PTRACE = (
    "py-spy may not look into other processes here: start the container with --cap-add=SYS_PTRACE, or ask those who "
    "run the machine to allow ptrace"
)
NO_PTRACE_MACOS = "macOS lets only root look into other processes: sudo -E workshop record py-spy -- COMMAND"
TOO_SLOW = "py-spy could not keep up with the rate; record with a lower --rate"


@dataclass(frozen=True)
class RecordedStacks(RecordedRun):
    """The stacks of a run, and how the command ended."""

    path: Path
    samples: int
    seconds: float
    """The time from the command's start to its end."""
    processes: int
    most_of_a_process: int
    """The number of samples of the process that has most of them."""
    warnings: list[str]


def recording_flags(rate: int, idle: bool, native: bool, threads: bool) -> list[str]:
    """Return the flags of `py-spy record` for a number of samples a second, and for what else is recorded."""
    chosen = {"--idle": idle, "--native": native, "--threads": threads}
    return ["--rate", str(rate), *(flag for flag, on in chosen.items() if on)]


def record(
    command: list[str],
    output: str = FOLDER,
    flags: Sequence[str] = (),
    seconds: float | None = None,
    say: Say = lambda _: None,
) -> RecordedStacks:
    """Run any command that starts Python under py-spy, and record all its processes.

    It ends by itself, or some seconds after its first training step.

    Raises:
        WorkshopError: there is no such command, no Python in it, or py-spy may not look.
        CrashError: it ended with an error before py-spy saw it.
        OSError: the folder cannot be written.
    """
    require_command(command[0], "name a command as in: record py-spy -- python train.py")
    notebook = _notebook_in(command)
    command = runnable(command) if script_in(command) else command
    path = output_path(output, "profile.raw")
    # The file lies beside its later place: a folder that cannot be written shows before hours of training.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.touch()
    try:
        with tempfile.TemporaryDirectory(prefix="workshop-py-spy-") as folder:
            limit = TimeLimit(seconds, Path(folder), say)
            begin = time.monotonic()
            environment = limit.environment and {**limit.environment, **probe_environment()}
            run = _PySpyRun([*flags, "--output", str(partial)], command, Path(folder), environment)
            with run.tree.watched(run.process.pid):
                run.wait(limit.is_over)
            ran_s = time.monotonic() - begin
            if not partial.stat().st_size:
                raise run.stopped or _why_nothing(run, command)
            said, ended = run.words(), run.ended()
        described = [_described(_in_cells(stack, notebook), run.tree) for stack in stacks.read(partial).stacks]
        partial.write_text("".join(f"{stack}\n" for stack in described), encoding="utf-8")
        path = output_path(output, "profile.raw")  # anew: another recording may have taken the name meanwhile
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    load_beside.keep(ended["machine"], path)
    processes = Counter[int]()
    for stack in described:
        if stack.processes:
            processes[stack.processes[-1].pid] += stack.samples
    samples, most = sum(stack.samples for stack in described), max(processes.values(), default=0)
    warnings = [TOO_SLOW] if "behind in sampling" in said else []
    return RecordedStacks(path, samples, ran_s, len(processes), most, warnings, **ended)


def _notebook_in(command: list[str]) -> str:
    """Return the name of the notebook that a command runs; empty if it runs none."""
    script = Path(script_in(command))
    return script.name if script.suffix == NOTEBOOK_SUFFIX else ""


def _in_cells(stack: Stack, notebook: str) -> Stack:
    """Return a stack without the frames that lead to a cell; the path of a cell begins with the notebook's name.

    py-spy has written the name of the cell alone.
    """
    if not notebook:
        return stack
    frames = (each for each in stack.frames if each.path not in (notebook, CELL_RUNNER))
    named = (each._replace(path=path) if cell_of(path := f"{notebook}/{each.path}") else each for each in frames)
    return replace(stack, frames=tuple(named))


def _described(stack: Stack, tree: ProcessTree) -> Stack:
    """Return a stack with the command lines that py-spy missed, with ranks, and without the shell around the command.

    py-spy looks at a process as it starts, often before it has a command line; and it does not know of ranks, which
    torchrun puts into the environment of the processes that it starts.
    """
    processes: list[Process] = []
    rank = None
    for process in stack.processes:
        command = tree.commands.get(process.pid) or process.command
        if MARK in command:
            if process != stack.processes[-1]:
                continue
            # This process was the shell for a moment, before it turned into the command.
            command = command.rpartition(f"{MARK} ")[2]
        if tree.ranks.get(process.pid, rank) != rank:
            rank = tree.ranks[process.pid]
            command = f"RANK={rank} {command}"
        processes.append(Process(process.pid, command))
    return replace(stack, processes=tuple(processes))


class NoPySpyError(WorkshopError):
    """There is no py-spy, or it does not run: what was found, and what to do about it."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(f"{found}; {remedy}")
        self.found, self.remedy = found, remedy


def why_no_access() -> str:
    """Return why py-spy may not attach to a process (ptrace) on this system; an empty text if it may.

    Raises:
        NoPySpyError: there is no py-spy, or it does not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        sleeper = [sys.executable, "-c", "import time; time.sleep(0.5)"]
        command = [_py_spy(), "record", "--format", "raw", "--output", f"{folder}/stacks", "--", *sleeper]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            remedy = "pip install --force-reinstall py-spy"
            raise NoPySpyError(f"does not run: {first_line(error)}", remedy) from None
    if run.returncode == 0:
        return ""
    # Below the first line, py-spy may print causes and its own stack.
    return (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[0].removeprefix("Error: ")


def version() -> str:
    """Return py-spy's version, or raise a `NoPySpyError` if there is no py-spy."""
    run = subprocess.run([_py_spy(), "--version"], capture_output=True, text=True)
    return run.stdout.strip().removeprefix("py-spy ")


def _py_spy() -> str:
    if tool := find_executable("py-spy"):
        return tool
    raise NoPySpyError("there is no py-spy here", "pip install py-spy")


def slurm_job(command: list[str], output: str, flags: Sequence[str]) -> str:
    """Return a SLURM job script that records a command on all nodes."""
    return job_script(["workshop", "record", "py-spy", "-o", output, *flags], command)


class _PySpyRun(Run):
    """py-spy, and under it the command, which ends later if it cleans up, or does more than Python."""

    def __init__(self, flags: list[str], command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.tree = ProcessTree()
        self._code, self._words = folder / "code", folder / "words"
        shell = ["sh", "-c", TO_BE_KILLED, AROUND_COMMAND, MARK]
        py_spy = [_py_spy(), "record", "--format", "raw", "--subprocesses", *flags, "--", *shell, *command]
        files = str(self._code), str(self._words)
        super().__init__(["sh", "-c", AROUND_PY_SPY, "sh", *files, *py_spy], str(folder), environment)

    @property
    def exit_code(self) -> int:
        """The exit code of the command; 0 if it has not come to its end."""
        return int(self._code.read_text()) if self.has_code() and not self.is_over else 0

    @property
    def patience_s(self) -> float:
        """Where py-spy has failed, the command would go on unseen."""
        return 0.0 if self.process.returncode else super().patience_s

    def has_code(self) -> bool:
        """Return whether the command has come to its end."""
        return self._code.exists() and bool(self._code.read_text())

    def has_ended(self) -> bool:
        """Return whether the command has come to its end, or py-spy to its own and the command to nothing."""
        if self.has_code():
            return True
        return self.process.poll() is not None and (bool(self.process.returncode) or not self._all(is_shell=True))

    def processes(self) -> list[psutil.Process]:
        """Return the processes below py-spy that run, without the shells, which end with the command."""
        shells = self._all(is_shell=True) if self.process.returncode else []
        return [*shells, *(process for process in self._all(is_shell=False) if process.pid != self.process.pid)]

    def words(self) -> str:
        """Return what py-spy has said."""
        return self._words.read_text(errors="replace") if self._words.exists() else ""

    def _all(self, is_shell: bool) -> list[psutil.Process]:
        found = dict.fromkeys([*super().processes(), *self.tree.running()])
        return [process for process in found if (MARK in command_of(process)) == is_shell]


def _why_nothing(run: _PySpyRun, command: Sequence[str]) -> WorkshopError:
    """Return the error that says why py-spy has written nothing."""
    said = run.words()
    complaint = next((line for line in said.splitlines() if line.startswith("Error: ")), said.strip())
    complaint = complaint.removeprefix("Error: ")
    if "requires root" in complaint:
        return WorkshopError(NO_PTRACE_MACOS)
    if why_no_access():  # of the processes below a command, py-spy does not say that it may not look
        return WorkshopError(NO_PTRACE)
    if "No python processes" in complaint or not complaint or "Samples: 0" in said:
        ended = f", which ended with exit code {run.exit_code}" if run.has_code() else ""
        kind = CrashError if run.exit_code else WorkshopError
        return kind(f"py-spy saw no Python begin within a second in {shlex.join(command)}{ended}")
    return WorkshopError(f"py-spy: {complaint}")
