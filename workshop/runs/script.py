"""Somebody's script in a process of its own, with a probe inside: started, listened to, and got rid of."""

import contextlib
import getpass
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from workshop import probe
from workshop.probe import wire
from workshop.probe.activity import SUFFIX
from workshop.probe.connection import ClosedError
from workshop.probe.log import FILE_VARIABLE, log
from workshop.probe.messages import ProbeFault
from workshop.probe.settings import PROBE_VARIABLE, JudgedRun, ProbeConfig
from workshop.runs.connections import Connections
from workshop.runs.process_tree import MAX_PROCESSES, end, group_size, marked, tree_of
from workshop.runs.script_error import (
    OutputTail,
    RunAlone,
    ScriptError,
    UnseenError,
    activities,
    activity,
    counted_activities,
    describe_activities,
    how_ended,
)

Say = Callable[[str], None]
"""A function that shows a person the progress, a line at a time."""

LOOK_EVERY_S = 1.0
"""Seconds between two looks at a script's processes, which take time from the script."""

SILENCE_S = 30.0
"""Seconds without a message, at most, until it is said what was seen."""

EXIT_PATIENCE_S = 60.0
"""Seconds, at most, until a script that has closed its connection ends."""

# Reading ends when the other end of the pipe is closed, which only the process that has started the guard holds.
_GUARD = """
import os, shutil, sys
sys.stdin.read()
try:
    os.killpg(int(sys.argv[1]), 9)
finally:
    shutil.rmtree(sys.argv[2], ignore_errors=True)
"""


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for what a script's probe writes, and delete it in the end; it is the script's TMPDIR, too."""
    base = tempfile.gettempdir()
    base = base if len(os.fsencode(base)) <= 50 else "/tmp"  # the path of a socket in it may have 103 bytes on macOS
    with tempfile.TemporaryDirectory(prefix="workshop-", dir=base, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container that is run with a number for its user
        return str(os.getuid())


def probe_environment() -> dict[str, str]:
    """Return the variables that start the probe in every Python of a command: on PYTHONPATH is its sitecustomize."""
    folder = str(Path(probe.__file__).parent / "inject")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))}


class Script:
    """A script that runs in a process group of its own and says what it does.

    A small process beside it, the guard, kills the group and deletes the folder if this process is killed.

    Args:
        command: the script and its arguments, or "-m", a module and its arguments.
        folder: the folder for what the probe writes; a script that is started again goes on in it.
        work_folder: the folder it runs in; None for an empty one.
        environment: variables beside those of this process.
        patience_s: how long it may be silent, the start-up included.
        title: what it is called in messages; by default the name of the script, or of the module.

    Attributes:
        say: told what was seen where nothing else was for half a minute.
    """

    memory = False
    """Whether its memory is what is measured."""

    every_step = False
    """Whether the memory of every step is."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        work_folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        patience_s: float = 180.0,
        title: str = "",
    ) -> None:
        self.command, self.folder, self.title = list(command), folder, title
        self.work_folder = work_folder or folder / "work"
        self.environment, self.patience_s = dict(environment or {}), patience_s
        self.process: subprocess.Popen[bytes] | None = None
        self.say: Say = lambda _: None
        self._log = folder / "log"
        """The file that the script's processes write the log to, if it was asked for: what they print is not shown."""
        self._log_read = 0
        self.runs = len(list(folder.glob("*.claimed")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def unit(self) -> str:
        """What the script is expected to report again and again."""
        return "a step"

    @property
    def name(self) -> str:
        """What the script is called in messages."""
        return self.title or (self.command[1] if self.command[0] == "-m" else Path(self.command[0]).name)

    def start(self, judged: JudgedRun | None = None, watched: bool = True) -> None:
        """Start the script from its beginning.

        Args:
            judged: what the probe does for the judge; None for a script that is measured.
            watched: whether the probe is put into it.
        """
        self.stop()
        self.work_folder.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, *self.command],
            cwd=self.work_folder,
            env=self._environment(self._probed(judged) if watched else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        log(f"started process {self.process.pid}: {' '.join(self.command)}")
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD, str(self.process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout
        self.output = OutputTail(self.process.stdout)
        self.runs += watched

    def _probed(self, judged: JudgedRun | None) -> dict[str, str]:
        """Listen for the probe of a new run, and return the variables that tell it what to do."""
        for seen in self.folder.glob(f"*{SUFFIX}"):  # in an earlier run
            seen.unlink(missing_ok=True)
        self.connections = Connections(self.folder, several=judged is None)
        config = ProbeConfig(str(self.folder), self.connections.path, self.runs, judged, self.memory, self.every_step)
        return {PROBE_VARIABLE: wire.encode(config)} | probe_environment()

    def run_alone(self, seconds: float) -> RunAlone:
        """Run the script once more with nothing put into it, for so many seconds at most; then it is stopped."""
        self.start(watched=False)
        began = time.monotonic()
        assert self.process
        exit_code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            exit_code = self.process.wait(seconds)
        found = RunAlone(time.monotonic() - began, exit_code)
        self.stop()
        return found

    def stop(self) -> None:
        """Kill the script with everything it started."""
        if self.process is None:
            return
        process, self.process = self.process, None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if group_size(process.pid) > MAX_PROCESSES:  # only killing all at once outruns a fork bomb
                os.killpg(process.pid, signal.SIGKILL)
        end(lambda: tree_of(process, mark=str(self.folder)), grace_s=0)
        self._guard.kill()
        self._guard.communicate()
        self.connections.close()
        self._follow_log()

    def terminate(self) -> None:
        """Tell the script, and everything that it started, to end, so that it writes what it keeps until then."""
        if process := self.process:
            end(lambda: tree_of(process, mark=str(self.folder)))
            self.stop()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the script and everything that it has started, also what has left its process group."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        for each in marked(str(self.folder)):
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getpgid(each.pid) != self.process.pid:
                    each.send_signal(number)

    def pause_workers(self) -> None:
        """Stop all processes of the script's group but its first one, which goes on."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGSTOP)
                os.kill(self.process.pid, signal.SIGCONT)

    def send(self, message: Any) -> None:
        """Send the script a message; a script that has ended does not receive it."""
        with contextlib.suppress(ClosedError):
            self.connections.send(message)

    def receive(self) -> Any:
        """Wait for the script's next message, and watch over it meanwhile.

        Raises:
            ClosedError: it has ended, or hung up.
            ScriptError: it was silent for too long, or has started too many processes.
            UnseenError: the probe has failed in it.
        """
        assert self.process
        began = time.monotonic()
        give_up, speak_up = began + self.patience_s, began + SILENCE_S
        while (message := self.connections.receive(LOOK_EVERY_S)) is None:
            self._follow_log()
            if self.process.poll() is not None:
                raise ClosedError("the process has ended")
            now = time.monotonic()
            if now > give_up:
                raise self.out_of_patience()
            if now > speak_up:
                speak_up = now + 2 * SILENCE_S
                self.on_silence()
            if group_size(self.process.pid) > MAX_PROCESSES:
                raise self.broken(f"it started more than {MAX_PROCESSES} processes")
        if isinstance(message, ProbeFault):
            raise self.unseen(f"the workshop's probe failed in it: {message.fault}")
        return message

    def out_of_patience(self) -> ScriptError:
        """Return the error of a script that was silent for too long, and stop it."""
        return self.broken(f"it did not come to the end of {self.unit} within {self.patience_s:.0f} s: {self.seen()}")

    def on_silence(self) -> None:
        """Say what was seen in place of what is waited for.

        Raises:
            UnseenError: the probe has failed in all processes that do something.
        """
        active = [each for each in activities(self.folder) if each.fault or activity(each)]
        if active and all(each.fault for each in active):
            raise self.unseen(self.seen())
        self.say(self.silence())

    def silence(self) -> str:
        """Return what is going on while nothing else is heard."""
        return f"no end of {self.unit} yet; so far {counted_activities(self.folder)}"

    def seen(self) -> str:
        """Return what the script's processes have done with torch so far, in a sentence."""
        return describe_activities(self.folder)

    def unseen(self, message: str) -> ScriptError:
        """Kill the script, and return the error of what cannot be seen."""
        return self.broken(message, UnseenError)

    def broken(
        self, message: str, kind: type[ScriptError] = ScriptError, exit_code: int | None = None, when: str = ""
    ) -> ScriptError:
        """Kill the script, and return the error that says why."""
        self.stop()
        return kind(message, exit_code, self.output.text(), self.name, when)

    def ended(self, when: str) -> ScriptError:
        """Return the error of a script that has ended by itself at some time, such as "after 3 steps"."""
        exit_code = self.exit_code()
        return self.broken(f"it {how_ended(exit_code)} {when}", exit_code=exit_code, when=when)

    def exit_code(self) -> int:
        """Return the exit code of a script that has closed its connection; it is an error if it goes on."""
        assert self.process
        try:
            return self.process.wait(EXIT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self.broken("it closed its connection to the workshop, and went on") from None

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        environment = {**os.environ, **self.environment, **variables}
        environment.pop("LINE_PROFILE", None)
        environment[FILE_VARIABLE] = str(self._log)
        # What a killed process leaves goes with the folder; only what was compiled is worth keeping for the next time.
        compiled = Path(tempfile.gettempdir()) / f"torchinductor_{_user_name()}"
        return {"TORCHINDUCTOR_CACHE_DIR": str(compiled)} | environment | {"TMPDIR": str(self.folder)}

    def _follow_log(self) -> None:
        """Print what has been added to the log."""
        with contextlib.suppress(OSError), self._log.open("rb") as file:
            file.seek(self._log_read)
            added = file.read()
            self._log_read += len(added)
            sys.stderr.write(added.decode(errors="replace"))
