"""py-spy over any command, and a recording that says which process is which."""

import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from workshop.errors import WorkshopError, first_line
from workshop.processes.executables import find_executable
from workshop.processes.process_tree import ProcessTree
from workshop.profiles import stacks
from workshop.profiles.stacks import Process, Recording, Stack
from workshop.recording.output_paths import output_path
from workshop.recording.slurm import job_script

FOLDER = "py-spy-outputs/"
"""The folder for recordings, where no other is named."""

NAME = "profile.raw"

MARK = "workshop-record"
"""The name of the shell around a command, by which it is known in the recording."""

# py-spy tells neither its own words from the command's, nor how the command ended. So its words go to a file, the
# command's own past it to where they belong, and the exit code to another file. As soon as there is no Python left,
# py-spy kills its child: that is a shell around the one that waits for the command. The traps let both outlive Ctrl-C.
AROUND_PY_SPY = 'exec 7>&1 8>&2 9>"$1" 1>"$2" 2>&1; shift 2; exec "$@"'
TO_BE_KILLED = 'trap : INT TERM; sh -c "$0" "$@"; :'
AROUND_COMMAND = 'trap : INT TERM; "$@" 1>&7 2>&8 7>&- 8>&- 9>&-; echo $? >&9'
GRACE_S = 1.0
"""The time for a shell that was never seen, as the command was so short, to write down how that ended."""

NO_PTRACE = (
    "py-spy may not look into other processes here: start the container with --cap-add=SYS_PTRACE, or ask those who "
    "run the machine to allow ptrace"
)
NO_PTRACE_MACOS = "macOS lets only root look into other processes: sudo -E workshop record py-spy -- COMMAND"


@dataclass(frozen=True)
class PySpyOptions:
    """What py-spy is to record."""

    rate: int = 100
    """The number of samples a second."""
    idle: bool = False
    """Whether threads that wait or sleep are recorded, too."""
    native: bool = False
    """Whether functions of C and C++ are recorded, too."""
    threads: bool = False
    """Whether threads are told apart."""

    def flags(self) -> list[str]:
        """Return the flags of `py-spy record`."""
        chosen = {"--idle": self.idle, "--native": self.native, "--threads": self.threads}
        return ["--rate", str(self.rate), *(flag for flag, on in chosen.items() if on)]


@dataclass(frozen=True)
class RecordedRun:
    """A recording, and how the command ended."""

    path: Path
    samples: int
    seconds: float
    """The time from the command's start to its end."""
    processes: int
    exit_code: int
    """The exit code of the command, as a shell has it."""
    stopped: BaseException | None
    """What ended the command early: Ctrl-C, or a signal."""
    warnings: list[str]


def record(command: list[str], output: str = FOLDER, options: PySpyOptions | None = None) -> RecordedRun:
    """Run a command under py-spy, with all processes that it starts.

    Args:
        command: any, as long as it starts Python somewhere.
        output: a file, or a folder: see `output_path`.
        options: what to record.

    Raises:
        WorkshopError: there is no such command, no Python in it, or py-spy may not look.
        OSError: the folder cannot be written.
    """
    if not shutil.which(command[0]):
        raise WorkshopError(f"there is no command {command[0]}; name a command as in: record py-spy -- python train.py")
    path = output_path(output, NAME)
    # Beside its later place: where there is no room, or no leave to write, that shows before hours of training.
    partial = path.with_name(f".{path.name}.partial")
    partial.touch()
    try:
        run = _Run([*(options or PySpyOptions()).flags(), "--output", str(partial)], command)
        begin = time.monotonic()
        run.wait()
        seconds = time.monotonic() - begin
        if not partial.stat().st_size:
            raise WorkshopError(run.why_nothing())
        recording = explain(stacks.read(partial), run.tree)
        partial.write_text("".join(f"{stack}\n" for stack in recording.stacks), encoding="utf-8")
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    processes = {stack.processes[-1].pid for stack in recording.stacks if stack.processes}
    return RecordedRun(
        path, recording.samples, seconds, len(processes), run.exit_code or 0, run.stopped, run.warnings()
    )


def explain(recording: Recording, tree: ProcessTree) -> Recording:
    """Return the same stacks with the command lines that py-spy missed, with ranks, and without the shell.

    py-spy looks at a process as it starts, often before it has a command line; and it does not know of ranks, which
    torchrun puts into the environment of the processes that it starts.
    """
    return Recording([_explained(stack, tree) for stack in recording.stacks], recording.damage)


def _explained(stack: Stack, tree: ProcessTree) -> Stack:
    processes: list[Process] = []
    rank = None
    for process in stack.processes:
        command = tree.commands.get(process.pid) or process.command
        if MARK in command:
            if process != stack.processes[-1]:
                continue
            # It was the shell for a moment, before it turned into the command.
            command = command.rpartition(f"{MARK} ")[2]
        if tree.ranks.get(process.pid, rank) != rank:
            rank = tree.ranks[process.pid]
            command = f"RANK={rank} {command}"
        processes.append(Process(process.pid, command))
    return replace(stack, processes=tuple(processes))


def why_no_access() -> str:
    """Have py-spy record a process for half a second; return why it may not, or an empty text if it may.

    Whether py-spy may attach to a process (ptrace) depends on the system, the container and the user.

    Raises:
        WorkshopError: there is no py-spy, or it does not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        sleeper = [sys.executable, "-c", "import time; time.sleep(0.5)"]
        command = [_py_spy(), "record", "--format", "raw", "--output", f"{folder}/stacks", "--", *sleeper]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WorkshopError(f"does not run: {first_line(error)}; pip install --force-reinstall py-spy") from None
    if run.returncode == 0:
        return ""
    # Perhaps with causes, and a stack of py-spy's own below.
    return (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[0].removeprefix("Error: ")


def version() -> str:
    """Return py-spy's version.

    Raises:
        WorkshopError: there is no py-spy.
    """
    run = subprocess.run([_py_spy(), "--version"], capture_output=True, text=True)
    return run.stdout.strip().removeprefix("py-spy ")


def _py_spy() -> str:
    if tool := find_executable("py-spy"):
        return tool
    raise WorkshopError("there is no py-spy here; pip install py-spy")


def slurm_job(command: list[str], output: str = FOLDER, options: PySpyOptions | None = None) -> str:
    """Return a SLURM job script that records a command on all nodes."""
    return job_script(["workshop", "record", "py-spy", "-o", output, *(options or PySpyOptions()).flags()], command)


class _Run:
    """py-spy and the command under it."""

    def __init__(self, flags: list[str], command: list[str]) -> None:
        self.command, self.said = command, ""
        self.exit_code: int | None = None
        self.stopped: BaseException | None = None
        self.tree = ProcessTree()
        shell = ["sh", "-c", TO_BE_KILLED, AROUND_COMMAND, MARK]
        self._line = [_py_spy(), "record", "--format", "raw", "--subprocesses", *flags, "--", *shell, *command]

    def wait(self) -> None:
        """Wait until the command has ended, and py-spy has written what it saw."""
        with tempfile.TemporaryDirectory() as folder:
            code, words = Path(folder, "code"), Path(folder, "words")
            process = subprocess.Popen(["sh", "-c", AROUND_PY_SPY, "sh", str(code), str(words), *self._line])
            with self.tree.watched(process.pid):
                self._wait_for(process)
                if process.returncode:
                    self.tree.send_signal(signal.SIGKILL)  # the command would go on unseen
                else:
                    self._wait_for_end(code)
            self.said = words.read_text(errors="replace")
            code_said = code.read_text()
        self.exit_code = int(code_said) if code_said else None

    def _wait_for(self, py_spy: subprocess.Popen[bytes]) -> None:
        """Wait for py-spy, which ends with the command, or at Ctrl-C, which the terminal tells the command, too."""
        while py_spy.poll() is None:
            try:
                py_spy.wait()
            except KeyboardInterrupt as stop:
                self.stopped = stop
            except SystemExit as stop:  # a signal that nobody else has had
                self.stopped = stop
                self.tree.send_signal(signal.SIGTERM)

    def _wait_for_end(self, code: Path) -> None:
        """Wait for the command, which may clean up, or do more than Python, until it ends or Ctrl-C comes again."""
        give_up = time.monotonic() + GRACE_S
        with suppress(KeyboardInterrupt):
            while not code.read_text() and (self.tree.runs(MARK) or time.monotonic() < give_up):
                time.sleep(0.02)

    def why_nothing(self) -> str:
        """Return a sentence that says why py-spy has written nothing."""
        complaint = next((line for line in self.said.splitlines() if line.startswith("Error: ")), self.said.strip())
        complaint = complaint.removeprefix("Error: ")
        if "requires root" in complaint:
            return NO_PTRACE_MACOS
        if why_no_access():  # of the processes below a command, py-spy does not say that it may not look
            return NO_PTRACE
        if "No python processes" in complaint or not complaint or "Samples: 0" in self.said:
            return f"py-spy saw no Python begin within a second in {shlex.join(self.command)}{self._how_it_ended()}"
        return f"py-spy: {complaint}"

    def _how_it_ended(self) -> str:
        return "" if self.exit_code is None else f", which ended with exit code {self.exit_code}"

    def warnings(self) -> list[str]:
        """Return the warnings of py-spy about a recording that was made."""
        behind = [line for line in self.said.splitlines() if "behind in sampling" in line]
        return ["py-spy could not keep up with the rate; record with a lower --rate"] if behind else []
