"""`workshop record py-spy`: py-spy over any command, and a recording that says who is who."""

import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workshop.doctor import check_py_spy
from workshop.errors import WorkshopError
from workshop.profiles import stacks
from workshop.recording.names import place
from workshop.recording.people import MARK, People
from workshop.recording.slurm import job_script
from workshop.tools import find_tool

FOLDER = "py-spy-outputs/"
NAME = "profile.raw"

# py-spy tells neither its own words from the command's, nor how the command ended. So its words go to a file, the
# command's own past it to where they belong, and the exit code to another file. As soon as there is no Python left,
# py-spy kills its child: that is a shell around the one that waits for the command. The traps let both outlive Ctrl-C.
AROUND_PY_SPY = 'exec 7>&1 8>&2 9>"$1" 1>"$2" 2>&1; shift 2; exec "$@"'
TO_BE_KILLED = 'trap : INT TERM; sh -c "$0" "$@"; :'
AROUND_COMMAND = 'trap : INT TERM; "$@" 1>&7 2>&8 7>&- 8>&- 9>&-; echo $? >&9'
GRACE_S = 1.0
"""For a shell that was never seen, as the command was so short, to write down how that ended."""

NO_PTRACE = (
    "py-spy may not look into other processes here: start the container with --cap-add=SYS_PTRACE, or ask those who "
    "run the machine to allow ptrace"
)
NO_PTRACE_MACOS = "macOS lets only root look into other processes: sudo -E workshop record py-spy -- COMMAND"


@dataclass(frozen=True)
class Options:
    """What py-spy is to see."""

    rate: int = 100
    """Samples a second."""
    idle: bool = False
    """Threads that wait or sleep, too."""
    native: bool = False
    """Functions of C and C++, too."""
    threads: bool = False
    """Which thread it was."""

    def flags(self) -> list[str]:
        """Of `py-spy record`."""
        chosen = {"--idle": self.idle, "--native": self.native, "--threads": self.threads}
        return ["--rate", str(self.rate), *(flag for flag, on in chosen.items() if on)]


@dataclass(frozen=True)
class Recorded:
    """How it ended."""

    path: Path
    samples: int
    seconds: float
    """From the command's start to its end."""
    processes: int
    exit_code: int
    """The command's, as a shell has it."""
    stopped: BaseException | None
    """What ended it early: Ctrl-C, or a signal."""
    warnings: list[str]


def record(command: list[str], output: str = FOLDER, options: Options | None = None) -> Recorded:
    """Run a command under py-spy, with all processes that it starts.

    Args:
        command: any, as long as it starts Python somewhere.
        output: a file, or a folder: see `place`.
        options: what to record.

    Raises:
        WorkshopError: there is no such command, no Python in it, or py-spy may not look.
        OSError: the folder cannot be written.
    """
    if not shutil.which(command[0]):
        raise WorkshopError(f"there is no command {command[0]}; name a command as in: record py-spy -- python train.py")
    path = place(output, NAME)
    # Beside its later place: where there is no room, or no leave to write, that shows before hours of training.
    partial = path.with_name(f".{path.name}.partial")
    partial.touch()
    try:
        run = _Run([*(options or Options()).flags(), "--output", str(partial)], command)
        begin = time.monotonic()
        run.wait()
        seconds = time.monotonic() - begin
        if not partial.stat().st_size:
            raise WorkshopError(run.why_nothing())
        recording = run.people.explain(stacks.read(partial))
        partial.write_text("".join(f"{stack}\n" for stack in recording.stacks), encoding="utf-8")
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    processes = {stack.processes[-1].pid for stack in recording.stacks if stack.processes}
    return Recorded(path, recording.samples, seconds, len(processes), run.exit_code or 0, run.stopped, run.warnings())


def slurm_job(command: list[str], output: str = FOLDER, options: Options | None = None) -> str:
    """A SLURM job script that records a command on all nodes."""
    return job_script(["workshop", "record", "py-spy", "-o", output, *(options or Options()).flags()], command)


class _Run:
    """py-spy and the command under it."""

    def __init__(self, flags: list[str], command: list[str]) -> None:
        tool = find_tool("py-spy")
        if tool is None:
            raise WorkshopError("there is no py-spy here; pip install py-spy")
        self.command, self.said = command, ""
        self.exit_code: int | None = None
        self.stopped: BaseException | None = None
        self.people = People()
        shell = ["sh", "-c", TO_BE_KILLED, AROUND_COMMAND, MARK]
        self._line = [tool, "record", "--format", "raw", "--subprocesses", *flags, "--", *shell, *command]

    def wait(self) -> None:
        """Until the command has ended, and py-spy has written what it saw."""
        with tempfile.TemporaryDirectory() as folder:
            code, words = Path(folder, "code"), Path(folder, "words")
            process = subprocess.Popen(["sh", "-c", AROUND_PY_SPY, "sh", str(code), str(words), *self._line])
            with self.people.watched(process.pid):
                self._wait_for(process)
                if process.returncode:
                    self.people.signal(signal.SIGKILL)  # the command would go on unseen
                else:
                    self._wait_for_end(code)
            self.said = words.read_text(errors="replace")
            code_said = code.read_text()
        self.exit_code = int(code_said) if code_said else None

    def _wait_for(self, py_spy: subprocess.Popen[bytes]) -> None:
        """It ends when the command has ended, or at Ctrl-C, which the terminal tells the command, too."""
        while py_spy.poll() is None:
            try:
                py_spy.wait()
            except KeyboardInterrupt as stop:
                self.stopped = stop
            except SystemExit as stop:  # a signal that nobody else has had
                self.stopped = stop
                self.people.signal(signal.SIGTERM)

    def _wait_for_end(self, code: Path) -> None:
        """Of the command, which may clean up, or do more than Python. A second Ctrl-C says that it takes too long."""
        give_up = time.monotonic() + GRACE_S
        with suppress(KeyboardInterrupt):
            while not code.read_text() and (self.people.command_runs() or time.monotonic() < give_up):
                time.sleep(0.02)

    def why_nothing(self) -> str:
        """For a person: why py-spy has written nothing."""
        complaint = next((line for line in self.said.splitlines() if line.startswith("Error: ")), self.said.strip())
        complaint = complaint.removeprefix("Error: ")
        if "requires root" in complaint:
            return NO_PTRACE_MACOS
        if check_py_spy().status != "ok":  # of the processes below a command, py-spy does not say that it may not look
            return NO_PTRACE
        if "No python processes" in complaint or not complaint or "Samples: 0" in self.said:
            return f"py-spy saw no Python begin within a second in {shlex.join(self.command)}{self._how_it_ended()}"
        return f"py-spy: {complaint}"

    def _how_it_ended(self) -> str:
        return "" if self.exit_code is None else f", which ended with exit code {self.exit_code}"

    def warnings(self) -> list[str]:
        """Of py-spy, on a recording that was made."""
        behind = [line for line in self.said.splitlines() if "behind in sampling" in line]
        return ["py-spy could not keep up with the rate; record with a lower --rate"] if behind else []
