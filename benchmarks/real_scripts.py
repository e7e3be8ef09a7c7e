"""Public training scripts under every instrument: are they seen, is what is said true, and is nobody's run harmed?

    python benchmarks/real_scripts.py FOLDER_OF_CLONES
    python benchmarks/real_scripts.py FOLDER_OF_CLONES --notebooks

The scripts and notebooks, their commits and their data are in `public_scripts.py`, and so are the packages that they
need. The folder has a clone, or a plain copy, of each repository, as OWNER/NAME or OWNER+NAME. Each script is written,
as its commit has it, into a folder that is deleted afterwards, and runs there under each instrument in turn. What is
said of it is printed, to be judged by reading.
"""

import argparse
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import psutil
from public_scripts import NOTEBOOKS, SCRIPTS, PublicScript

import workshop
from workshop.errors import WorkshopError, plain_errors
from workshop.notebooks.cell_script import cells_to_run, choose
from workshop.notebooks.notebook_file import NOTEBOOK_SUFFIX, SKIPPED, read

PLAIN_S = 30.0
"""A script that runs for so long, or ends before without an error, runs."""

GRACE_S = 3.0
"""How long processes may take to end after the command that started them."""

PR_SET_CHILD_SUBREAPER = 36
"""As in <sys/prctl.h>: a process that loses its parent becomes a child of this one."""

PACKAGE = str(Path(workshop.__file__).parent)
WORKSHOP = str(Path(sys.executable).with_name("workshop"))
LINES, SAMPLES, TRACES = "real.lprof", "real.raw", "real-prof"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    exit_code: int | None
    """None: it was killed at the time limit."""
    seconds: float
    output: str
    errors: str
    left: list[str]
    """The command lines of the processes that it left behind."""


@dataclass(frozen=True)
class Found:
    """What an instrument said of a script."""

    script: str
    instrument: str
    outcome: str
    """`seen`; `told`, why it is not; `wrong`, where the script or the verdict is; `hang`; `crash`, of ours."""
    exit_code: int | None
    seconds: float
    steps: int | None
    words: list[str]
    """The top finding, the notes, or the reason why there is none."""
    left: list[str]


Reading = tuple[bool, int | None, list[str]]
"""Whether the script was seen, in how many steps, and what was said."""


def main() -> None:
    """Run all, and print a table."""
    parser = argparse.ArgumentParser(description="Put public training scripts under every instrument.")
    parser.add_argument("clones", type=Path)
    parser.add_argument("--notebooks", action="store_true", help="the notebooks instead of the scripts")
    parser.add_argument("--only", nargs="+", default=[each.name for each in [*SCRIPTS, *NOTEBOOKS]], help="names")
    parser.add_argument("--instruments", nargs="+", choices=INSTRUMENTS, help="all by default; of notebooks, three")
    parser.add_argument("--seconds", type=float, default=4, help="of a measurement; default 4")
    parser.add_argument("--limit", type=float, default=150, help="seconds of a command, at most; default 150")
    parser.add_argument("--json", type=Path, help="write what was found here, a line for each command")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    own = [each for each in INSTRUMENTS if each != "memory"]
    scripts, instruments = (NOTEBOOKS, OF_NOTEBOOKS) if arguments.notebooks else (SCRIPTS, own)
    arguments.instruments = arguments.instruments or instruments
    found = []
    for script in scripts:
        if script.name not in arguments.only:
            continue
        for each in run_all(script, arguments):
            print_found(each)
            found.append(each)
            if arguments.json:
                with arguments.json.open("a") as file:
                    file.write(json.dumps(asdict(each)) + "\n")
    print_table(found, arguments.instruments)


def run_all(script: PublicScript, arguments: argparse.Namespace) -> Iterator[Found]:
    """Yield what each instrument says of a script."""
    with tempfile.TemporaryDirectory(prefix="real-", ignore_cleanup_errors=True) as name:
        root = Path(name).resolve()
        check_out(script, arguments.clones, root)
        folder = (root / script.script).parent
        if script.script.endswith(NOTEBOOK_SUFFIX):
            edit(root / script.script, script)
        script.data(folder)
        started = [*launcher(script), str(root / script.script), *shlex.split(script.arguments)]
        for instrument in arguments.instruments:
            command = INSTRUMENTS[instrument].command(started, arguments.seconds)
            limit = PLAIN_S if instrument == "plain" else arguments.limit
            yield judged(script, instrument, run(command, folder, environment(script, root), limit), folder)


def check_out(script: PublicScript, clones: Path, into: Path) -> None:
    """Write the files of a commit into a folder; what a clone lacks, as large files may be, is left out."""
    owner, name = script.repository.split("/")
    for clone in (clones / owner / name, clones / f"{owner}+{name}"):
        for git in (clone, clone / ".git", clone / "repo", clone / "repo" / ".git"):
            if (git / "objects").is_dir():
                here = {"GIT_DIR": str(git), "GIT_WORK_TREE": str(into), "GIT_INDEX_FILE": str(into / ".index")}
                subprocess.run(["git", "read-tree", script.commit], env=os.environ | here, check=True)
                checkout = ["git", "checkout-index", "--all", "--quiet", f"--prefix={into}/"]
                subprocess.run(checkout, env=os.environ | here, capture_output=True)
                return
        if clone.is_dir():
            shutil.copytree(clone, into, dirs_exist_ok=True)
            return
    raise WorkshopError(f"there is no clone of {script.repository} in {clones}; git clone it there")


def edit(path: Path, notebook: PublicScript) -> None:
    """Make the edits of a notebook, and mark the cells that are left out."""
    choose(notebook.cells)
    kept, found = {each.index for each in cells_to_run(read(path))}, json.loads(path.read_text(encoding="utf-8"))
    choose("")
    for at, cell in enumerate(found["cells"]):
        source = "".join(cell["source"])
        for old, new in notebook.edits:
            source = source.replace(old, new)
        cell["source"] = source
        if at not in kept:
            cell["metadata"]["tags"] = [SKIPPED]
    path.write_text(json.dumps(found), encoding="utf-8")


def environment(script: PublicScript, root: Path) -> dict[str, str]:
    """Return the variables of a run: no GPU, no network, and caches that are deleted with the folder."""
    own = {key: value.format(root=root) for key, value in script.environment.items()}
    (root / ".tmp").mkdir(exist_ok=True)
    folders = {"HF_HOME": f"{root}/.cache/hf", "TORCH_HOME": f"{root}/.cache/torch", "TMPDIR": f"{root}/.tmp"}
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "disabled", "MPLBACKEND": "agg"}
    return os.environ | {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": ""} | folders | offline | own


def launcher(script: PublicScript) -> list[str]:
    """Return what comes before the script: torchrun, which the workshop knows by name, or another script."""
    words = shlex.split(script.launcher)
    return words if words[:1] in ([], ["torchrun"]) else [str(Path(sys.executable).with_name(words[0])), *words[1:]]


def in_python(started: list[str]) -> list[str]:
    """Return the command line of a script without an instrument."""
    return [sys.executable, *(["-m", "torch.distributed.run", *started[1:]] if started[0] == "torchrun" else started)]


def run(command: list[str], folder: Path, variables: dict[str, str], limit_s: float) -> Ended:
    """Run a command until it ends or reaches the limit; kill what it leaves."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": errors}
        process = subprocess.Popen(command, cwd=folder, env=variables, start_new_session=True, **streams)
        exit_code = None
        with suppress(subprocess.TimeoutExpired):
            exit_code = process.wait(limit_s)
        seconds = time.monotonic() - begin
        left = end_all(process, exit_code is None)
        return Ended(exit_code, seconds, text(output), text(errors), left)


def text(file: IO[bytes]) -> str:
    """Return all that was written into a file."""
    file.seek(0)
    return file.read().decode(errors="replace")


def end_all(process: subprocess.Popen[bytes], killed: bool) -> list[str]:
    """Kill every process below this one; return the command lines of those that outlived their command."""
    below = psutil.Process().children(recursive=True)
    if not killed:
        _, below = psutil.wait_procs(below, GRACE_S)
    left = []
    for each in below:
        with suppress(psutil.Error):
            if each.status() != psutil.STATUS_ZOMBIE:
                left.append(" ".join(each.cmdline())[:200])
            each.kill()
    psutil.wait_procs(below, GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return [] if killed else left


def judged(script: PublicScript, instrument: str, ended: Ended, folder: Path) -> Found:
    """Say what became of a run."""
    frames = re.findall(r'^ *File "(.+)", line', ended.errors, re.MULTILINE)
    seen, steps, words = False, None, last_lines(ended.errors, 2)
    with suppress(json.JSONDecodeError):
        seen, steps, words = INSTRUMENTS[instrument].read(ended, folder)
    if frames and frames[-1].startswith(PACKAGE):
        outcome = "crash"
    elif ended.exit_code not in INSTRUMENTS[instrument].exit_codes:
        outcome = "hang" if ended.exit_code is None else "wrong"
    else:
        outcome = "seen" if seen else "wrong" if frames else "told"
    return Found(script.name, instrument, outcome, ended.exit_code, ended.seconds, steps, words, ended.left)


def last_lines(text: str, count: int = 1) -> list[str]:
    """Return the last lines of a text that are not empty."""
    return [each.strip()[:300] for each in text.splitlines() if each.strip()][-count:]


def read_plain(ended: Ended, folder: Path) -> Reading:
    """Without an instrument."""
    return ended.exit_code in (0, None), None, last_lines(ended.errors or ended.output)


def read_measure(ended: Ended, folder: Path) -> Reading:
    """`workshop measure --json`."""
    values = json.loads(ended.output)
    if ended.exit_code:
        return False, None, [*values["reasons"], *last_lines(values["output"])]
    findings = [each for rank in (values["ranks"] or [values]) for each in rank.get("findings", [])]
    words = [f"{each['cause']} {where(each)} {each['words']}" for each in findings]
    phases = {name: round(100 * each["share"]) for name, each in values["phases"].items() if each["share"] > 0.005}
    said = [*words[:2], str(phases), *(f"note: {each}" for each in values["notes"])]
    return bool(values["steps"]["count"]), values["steps"]["count"], said


def read_memory(ended: Ended, folder: Path) -> Reading:
    """`workshop memory --json`: the findings, and the lines that hold most at the peaks."""
    values = json.loads(ended.output)
    if ended.exit_code or "peaks" not in values:
        return False, None, [*values.get("reasons", ()), *last_lines(ended.errors)]
    lines = [each for peak in values["peaks"] for each in peak["lines"] if each["file"]]
    lines.sort(key=lambda each: -each["bytes"])
    said = [f"{each['cause']} {where(each)}" for each in values["findings"][:2]]
    said += [f"{each['kind']} {each['bytes'] / 2**20:.1f} MiB {where(each)}" for each in lines[:2]]
    return bool(lines), values["steps"]["count"], said


def where(values: dict[str, Any]) -> str:
    """Return the place of a finding or a row: its line, and the cell of a notebook."""
    return f"{Path(values['file']).name}{f', cell {cell}' if (cell := values.get('cell')) else ''}:{values['line']}"


def read_lines(ended: Ended, folder: Path) -> Reading:
    """`workshop record lines`: the lines of the most time that are not imports."""
    if not (folder / LINES).is_file():
        return False, None, last_lines(ended.errors)
    shown = subprocess.run([WORKSHOP, "lines", LINES], cwd=folder, capture_output=True, text=True).stdout
    rows = re.findall(r"^ *\d+ +\d+ +.*?([\d.]+)% +(?! |import |from )(.*)$", shown, re.MULTILINE)
    rows.sort(key=lambda row: -float(row[0]))
    said = [f"{share}% {line}"[:100] for share, line in rows[:3]]
    return bool(rows), None, [*said, *last_lines(ended.errors, 4)[:1]]


def read_py_spy(ended: Ended, folder: Path) -> Reading:
    """`workshop record py-spy`: where the most samples are, and the line of the script that led there."""
    if not (folder / SAMPLES).is_file():
        return False, None, last_lines(ended.errors)
    report = [WORKSHOP, "py-spy-report", "--file", SAMPLES, "--json"]
    shown = subprocess.run(report, cwd=folder, capture_output=True, text=True).stdout
    rows = json.loads(shown)["rows"]
    said = [" ".join(str(each) for each in row.values())[:200] for row in rows[:2]]
    own = any(row["library_function_name"] != "Not Found" for row in rows)
    return own, None, [*said, *last_lines(ended.errors, 4)[:1]]


def read_torch(ended: Ended, folder: Path) -> Reading:
    """`workshop record torch --stop`: the traces."""
    traces = [*(folder / TRACES).rglob("*trace.json*")]
    return bool(traces), None, [f"{len(traces)} traces"] if traces else last_lines(ended.errors)


def read_compare(ended: Ended, folder: Path) -> Reading:
    """`workshop compare` of the script with itself."""
    verdict = json.loads(ended.output)
    return verdict["speed"] is not None, None, [verdict["outcome"], *verdict["reasons"]]


@dataclass(frozen=True)
class Instrument:
    """A command that is tried on each script."""

    command: Callable[[list[str], float], list[str]]
    """Makes the command line, given that of the script and the seconds of a measurement."""
    read: Callable[[Ended, Path], Reading]
    exit_codes: tuple[int | None, ...]
    """Those of a run in which neither the script nor the verdict went wrong."""


def recorder(name: str, *options: str) -> Callable[[list[str], float], list[str]]:
    """Return what makes the command line of a recording."""
    return lambda started, seconds: [WORKSHOP, "record", name, *options, "--seconds", str(seconds), "--", *started]


INSTRUMENTS = {
    "plain": Instrument(lambda started, seconds: in_python(started), read_plain, (0, None)),
    "measure": Instrument(
        lambda started, seconds: [WORKSHOP, "measure", "--json", "--seconds", str(seconds), *started],
        read_measure,
        (0, 2),
    ),
    "memory": Instrument(
        lambda started, seconds: [WORKSHOP, "memory", "--json", "--seconds", str(seconds), *started],
        read_memory,
        (0, 2),
    ),
    "lines": Instrument(recorder("lines", "-o", LINES), read_lines, (0, 2)),
    "py-spy": Instrument(
        lambda started, seconds: recorder("py-spy", "-o", SAMPLES)(in_python(started), seconds), read_py_spy, (0, 2)
    ),
    "torch": Instrument(
        lambda started, seconds: [WORKSHOP, "record", "torch", "--stop", "--prof-dir", TRACES, "--", *started],
        read_torch,
        (0, 2),
    ),
    "compare": Instrument(
        lambda started, seconds: [WORKSHOP, "compare", "--json", started[0], *started], read_compare, (1, 2, 4)
    ),
}


OF_NOTEBOOKS = ["measure", "lines", "memory"]
"""Those that notebooks are put under by default."""


def print_found(found: Found) -> None:
    """Print what is needed to judge it by reading."""
    steps = "" if found.steps is None else f", {found.steps} steps"
    code = "killed" if found.exit_code is None else f"exit {found.exit_code}"
    print(f"{found.script:24}{found.instrument:9}{found.outcome:6}{found.seconds:5.0f} s, {code}{steps}")
    for line in found.words:
        print(f"{'':33}{line}")
    for line in found.left:
        print(f"{'':33}LEFT RUNNING: {line}")
    sys.stdout.flush()


def print_table(found: list[Found], instruments: list[str]) -> None:
    """Print a row for each script."""
    print("\n| script | " + " | ".join(instruments) + " |\n|---|" + "---|" * len(instruments))
    outcomes = {(each.script, each.instrument): each.outcome + " LEFT" * bool(each.left) for each in found}
    for name in dict.fromkeys(each.script for each in found):
        print(f"| {name} | " + " | ".join(outcomes[name, each] for each in instruments) + " |")


if __name__ == "__main__":
    with plain_errors():
        main()
