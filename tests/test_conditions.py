"""The conditions of a Mac, of a container and of a cluster, on Linux: every command works there, or says why not."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import Completed

from workshop.course import checks
from workshop.course.state import State
from workshop.recording import py_spy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the conditions are made by means of Linux")

AS_DEFAULT = """
import multiprocessing
multiprocessing.context._default_context._default_context = multiprocessing.get_context({method!r})
"""
"""What makes a start method the default, as the system or a later Python does; a script may still choose another."""


def in_shell(line: str) -> tuple[str, ...]:
    """The words that run a command in a shell after some line of it."""
    return "sh", "-c", f'{line} && exec "$@"', "sh"


@dataclass(frozen=True)
class Condition:
    """What is different from this machine as it is.

    `around` are the words before a command: {work} and {home} in them are the folders of the test. `told` is what
    `workshop doctor` says of it, and `doctor` is its exit code.
    """

    name: str
    around: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    start_method: str = ""
    folder: str = "work"
    told: str = ""
    doctor: int = 0


IN_OWN_MOUNTS = ("unshare", "--mount")

FILES = Condition("256 open files", in_shell("ulimit -n 256"), told="warn open files at most 256")
SPAWN = Condition("spawn", start_method="spawn", told="ok start method spawn: workers import the script anew")
FORKSERVER = Condition("forkserver", start_method="forkserver", told="ok start method forkserver: workers import")
NO_PTRACE = Condition(
    "no ptrace",
    (sys.executable, str(Path(__file__).parent / "recording" / "without_ptrace.py")),
    told="warn py-spy may not attach (ptrace): ",
)
SHARED_MEMORY = Condition(
    "64 MB of shared memory",
    (*IN_OWN_MOUNTS, *in_shell("mount -t tmpfs -o size=64m tmpfs /dev/shm")),
    told="warn /dev/shm 64 MiB free",
)
READ_ONLY = Condition(
    "read-only home and working folder",
    (
        *IN_OWN_MOUNTS,
        *in_shell('for each in "{home}" "{work}"; do mount -o bind,ro "$each" "$each" || exit; done; cd "{work}"'),
    ),
    told="warn this folder may not be written",
)
LONG_TMPDIR = Condition(
    "TMPDIR of 90 characters",
    environment={"TMPDIR": "{long}"},
    told="fail TMPDIR workers cannot hand batches over in /tmp/",
    doctor=1,
)
NO_PROC = Condition(
    "no /proc of other processes",
    (
        *(*IN_OWN_MOUNTS, *in_shell("mount -t proc -o hidepid=2,gid=65533 proc /proc")),
        *("unshare", "--user", "--map-user=65534", "--map-group=65534"),
    ),
)
ONE_CORE = Condition("one core", ("taskset", "--cpu-list", "0"), told="warn cores 1 of ")
UMLAUTS = Condition("folder with blanks and umlauts", folder="mein Ordner für Übungen")
NO_NAME = Condition("user without a name", ("unshare", "--user", "--map-user=54321", "--map-group=54321"))

PLACES = {
    "a Mac": [FILES, SPAWN, UMLAUTS],
    "a Mac's TMPDIR": [LONG_TMPDIR],
    "a container": [SHARED_MEMORY, READ_ONLY, NO_NAME, NO_PTRACE],
    "a shared machine": [FORKSERVER, ONE_CORE, NO_PROC],
}
"""Each condition in one of a few places, as it is met: all commands take most of a minute."""


class Place:
    """A working folder with the solution of part 3 in it, and what is around a command there."""

    def __init__(self, conditions: list[Condition], top: Path, long: str, project: Path) -> None:
        self.conditions = conditions
        self.folder = top / next((each.folder for each in conditions if each.folder != "work"), "work")
        home = top / "home"
        for folder in (self.folder, home, top / "first"):
            folder.mkdir()
        (self.folder / "train.py").write_bytes((project / "solutions" / "part3.py").read_bytes())
        places = {"work": str(self.folder), "home": str(home), "long": long}
        self.around: list[str] = []
        self.environment = {key: value for key, value in os.environ.items() if key not in ("USER", "LOGNAME")}
        self.environment |= {"HOME": str(home), "PYTHONPATH": str(top / "first")}
        for each in conditions:
            self.around += [_filled(word, places) for word in each.around]
            self.environment |= {name: _filled(value, places) for name, value in each.environment.items()}
            if each.start_method:
                (top / "first" / "sitecustomize.py").write_text(AS_DEFAULT.format(method=each.start_method))
        tried = subprocess.run([*self.around, "true"], capture_output=True, text=True)
        if tried.returncode:
            pytest.skip(f"this cannot be made here: {tried.stderr.strip()}")

    def run(self, *arguments: str | Path, codes: Collection[int] = (0,)) -> Completed:
        """Run the command `workshop` there; it ends with one of these exit codes, and without a traceback."""
        command = [*self.around, sys.executable, "-m", "workshop", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=280
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        assert done.returncode in codes, done.stdout + done.stderr
        return done


def _filled(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(f"{{{name}}}", place)
    return word


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, project: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="long".ljust(77, "-")) as long:
        assert len(long) == 90
        yield Place(request.param, tmp_path, long, project)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES.values(), indirect=True, ids=PLACES.keys())
def test_doctor_says_what_is_different(place: Place, data: Path) -> None:
    doctor = place.run("doctor", "--data", data, codes=[max(each.doctor for each in place.conditions)])
    for each in place.conditions:
        assert each.told in " ".join(doctor.stdout.split())


@pytest.mark.acceptance
@pytest.mark.parametrize("place", PLACES.values(), indirect=True, ids=PLACES.keys())
def test_each_command_works_or_says_why_not(
    place: Place, data: Path, write_config: Callable[..., Path], tmp_path: Path
) -> None:
    there = place.conditions
    own = ["--data", data, "--experiments", tmp_path / "experiments", "--device", "cpu"]
    # The headroom starts the script again and again: that is tried where processes start in another way.
    quick = [] if SPAWN in there else ["--no-headroom"]
    config = write_config(max_epochs=100, wasted_time=0.01)
    measured = place.run("measure", "--seconds", "1", *quick, "train.py", config, *own)
    assert "train.py:" in measured.stdout

    script = ["train.py", write_config(max_epochs=1), *own]
    if LONG_TMPDIR not in there:  # the script alone hangs there, as Python's own workers do
        code = 2 if READ_ONLY in there else 0
        counted = place.run("record", "lines", "--", *script, codes=[code])
        assert ("are in train.py.lprof" in counted.stdout + counted.stderr) == (code == 0)
    if READ_ONLY in there:
        assert counted.stderr.endswith("Read-only file system; name a folder of your own\n")
        place.run("record", "lines", "-o", tmp_path / "out.lprof", "--", *script)
    if NO_PTRACE in there:
        out = ["-o", tmp_path / "out.raw"]
        refused = place.run("record", "py-spy", *out, "--", sys.executable, *script, codes=[2])
        assert refused.stderr.splitlines()[-1] == py_spy.NO_PTRACE


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "place",
    [[*PLACES["a Mac"], LONG_TMPDIR], PLACES["a container"], PLACES["a shared machine"]],
    indirect=True,
    ids=["a Mac", "a container", "a shared machine"],
)
def test_the_solution_of_part3_is_done(place: Place, data: Path) -> None:
    State(place.folder).put(4.0, "calibration", f"{checks.machine('cpu')}, the part's own config", "part3")
    checked = place.run("check", "part3", "--data", data, "--device", "cpu", codes=[0, 4])
    assert "part3: done" in checked.stdout or "part3: undecided" in checked.stdout
