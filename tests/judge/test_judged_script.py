"""A script is told to train epoch by epoch, and started again when it ends by itself."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from fake_script import EPOCHS

from workshop.judge.judged_script import JudgedScript
from workshop.probe.messages import EpochBegan, EpochEnded, EpochReport, Proceed
from workshop.runs.script import run_folder
from workshop.runs.script_error import ScriptError

Make = Callable[..., JudgedScript]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A script with some lines after those of `fake_script.EPOCHS`."""
    with contextlib.ExitStack() as stack:

        def script(text: str, **options: object) -> JudgedScript:
            path = tmp_path / "script.py"
            path.write_text(EPOCHS + text)
            folder = stack.enter_context(run_folder())
            return stack.enter_context(JudgedScript([str(path)], folder, **options))  # type: ignore[arg-type]

        yield script


def status(script: JudgedScript) -> str:
    assert script.process
    return psutil.Process(script.process.pid).status()


def stops(status: Callable[[], str]) -> bool:
    """Whether a process is stopped within ten seconds."""
    give_up = time.monotonic() + 10
    while status() != psutil.STATUS_STOPPED and time.monotonic() < give_up:
        time.sleep(0.01)
    return status() == psutil.STATUS_STOPPED


def ends(process: psutil.Process) -> bool:
    """Whether a process that is no child of this one ends within ten seconds."""
    give_up = time.monotonic() + 10
    while (lives := process.is_running() and process.status() != psutil.STATUS_ZOMBIE) and time.monotonic() < give_up:
        time.sleep(0.01)
    return not lives


def test_epochs_one_at_a_time(make: Make) -> None:
    script = make("while True: epoch(0.2)")
    for _ in range(3):
        found = script.epoch()
        assert found.report.finished
        assert sum(found.report.phases.values()) == pytest.approx(0.2)
        assert found.seconds > 0.1
    assert stops(lambda: status(script))
    assert script.epoch_steps == 2
    assert script.recompute().loss == 1.0
    assert script.epoch().report.finished


DETACHED = """
import subprocess
loop = "import time\\nwhile True: time.sleep(0.01)"
other = subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)
open("pid", "w").write(str(other.pid))
while True: epoch()
"""


def test_what_has_left_its_process_group_stands_still_between_epochs_too(make: Make, tmp_path: Path) -> None:
    script = make(DETACHED, work_folder=tmp_path)
    script.epoch()
    detached = psutil.Process(int((tmp_path / "pid").read_text()))
    assert stops(detached.status)
    script.epoch(pause=False)
    assert detached.status() != psutil.STATUS_STOPPED
    script.stop()
    assert ends(detached)


WORKS_BESIDE = """
import psutil
from multiprocessing import Process
worker = Process(target=time.sleep, args=(1000,), daemon=True)
worker.start()
judge.send(EpochBegan())
judge.send(EpochEnded())
give_up = time.monotonic() + 10
while (state := psutil.Process(worker.pid).status()) != "stopped" and time.monotonic() < give_up:
    time.sleep(0.01)
judge.send(EpochReport(True, 1 + (state == "stopped"), phases, None, [], 0, cut_short=cut_short))
"""


@pytest.mark.parametrize("cut_short", [False, True])
def test_workers_stop_with_the_clock(cut_short: bool, make: Make) -> None:
    """What they would load while the script reports would be free; a script that ends waits for them to end."""
    script = make(f"cut_short = {cut_short}\n{WORKS_BESIDE}")
    assert script.epoch().report.steps == 2
    assert not cut_short or script.exit_code() == 0


def test_start_up_is_no_part_of_the_first_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is that of the judge; the script's own counts the phases, and what recording a step took."""
    report = EpochReport(True, 2, {}, None, [], 0, recording_s=0.5)
    told = iter([(7.0, EpochBegan()), (9.5, EpochEnded()), (60.0, report)])
    now_s = 5.0

    def receive() -> object:
        nonlocal now_s
        now_s, message = next(told)
        return message

    script = JudgedScript(["script.py"], tmp_path)
    monkeypatch.setattr(script, "begin", lambda *_: None)
    monkeypatch.setattr(script, "receive", receive)
    monkeypatch.setattr("workshop.judge.judged_script.time.perf_counter", lambda: now_s)
    found = script.epoch()
    assert (found.seconds, found.report, found.first_step) == (2.0, report, 0)


@pytest.mark.parametrize(("epochs", "runs"), [(1, 5), (3, 2), (5, 1)])
def test_a_script_that_ends_is_started_again(epochs: int, runs: int, make: Make) -> None:
    """The first epoch of a run only warms it up, unless it is the only one."""
    script = make(f"for number in range({epochs}): epoch(steps=number)")
    numbers = [script.epoch().report.steps for _ in range(5)]
    assert script.runs == runs
    own = list(range(epochs))
    assert numbers == [*own, *(own[1:] or own) * 5][:5]


def test_a_script_that_is_not_to_be_paused_is_not_paused_after_it_was_started_again(make: Make) -> None:
    script = make("epoch()\ntime.sleep(0.1)")
    for _ in range(3):
        script.epoch(pause=False)
        assert status(script) != psutil.STATUS_STOPPED


def test_an_epoch_that_the_script_cuts_short_is_its_only_one_or_none(make: Make) -> None:
    script = make("epoch(steps=1, cut_short=True)")
    assert [script.epoch().report.steps for _ in range(3)] == [1, 1, 1]
    script = make("epoch()\nepoch()\nepoch(steps=1, cut_short=True)")
    assert [script.epoch().report.steps for _ in range(4)] == [2, 2, 2, 2]


def test_parts_of_a_scripts_only_epoch_come_before_the_whole(make: Make, tmp_path: Path) -> None:
    script = make(
        "epoch(steps=1)\nif not os.path.exists('ran'):\n    open('ran', 'w').close()\n    epoch()", work_folder=tmp_path
    )
    assert [script.epoch().report.steps for _ in range(4)] == [1, 2, 1, 1]


@pytest.mark.parametrize(
    ("text", "epochs", "says"),
    [
        ("", 0, "it ended with code 0 before the end of its first epoch"),
        ("epoch(cut_short=True)\n1 / 0", 0, "it ended with code 1 before the end of its first epoch"),
        ("epoch()\nsys.exit(3)", 1, "it ended with code 3 after 1 epoch$"),
        ("epoch()\nepoch()\nos.kill(os.getpid(), 9)", 2, "it was killed by SIGKILL after 2 epochs"),
        ("epoch()\ntime.sleep(1000)", 1, "it did not come to the end of 2 steps within 2 s"),
    ],
)
def test_a_script_that_breaks(text: str, epochs: int, says: str, make: Make) -> None:
    script = make(text)
    for _ in range(epochs):
        script.epoch()
    if "sleep" in text:
        script.patience_s = 2.0
    with pytest.raises(ScriptError, match=says):
        script.epoch(Proceed(sample_step=1))


def test_a_run_goes_on_in_the_folder_of_the_one_before(make: Make) -> None:
    script = make("while True: epoch()")
    script.epoch()
    script.stop()
    with JudgedScript(script.command, script.folder) as again:
        assert again.epoch().report.finished
        assert again.runs == 2
