"""The whole workshop, as a participant types it in a terminal of 80 columns."""

import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pexpect
import pytest
from said import ANOTHER_LINE, NOTHING_CHANGED

from workshop.bad_node import chosen_rank
from workshop.course import checks
from workshop.course.progress import EDITED, remember
from workshop.course.state import State
from workshop.experiment import ExperimentConfig
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import all_parts, find_part
from workshop.parts.case import case_names

Type = Callable[..., str]

PROMPT = "ready> "


@pytest.fixture
def clone(project: Path, tmp_path: Path) -> Path:
    """What a participant has of the project, and a config for a run of seconds."""
    folder = tmp_path / "clone"
    shutil.copytree(project / "configs", folder / "configs")
    shutil.copy(project / "train.py", folder)
    shutil.copy(project / "profiling_experiment.ipynb", folder)
    config = ExperimentConfig(
        batch_size=4, max_epochs=1, max_items=24, image_size=64, wasted_time=0.2, dataset="stand-in"
    )
    (folder / "small.py").write_text(config.to_source())
    slow_node = "from workshop.bad_node import slow_one_rank\nslow_one_rank(0.3)\n"
    (folder / "bad_node.py").write_text(config.to_source() + slow_node)
    for part in all_parts():  # how fast the solution is here takes a minute to find out, and is tried by the selftest
        State(folder).put(9.0, "calibration", f"{checks.machine('cpu')}, the part's own config", part.name)
    return folder


@pytest.fixture
def type_in(clone: Path) -> Iterator[Type]:
    """Type a command into the terminal, answer what it asks, and read what came back; it must end as expected."""
    shell = pexpect.spawn("bash", ["--norc"], cwd=clone, dimensions=(24, 80), encoding="utf-8", timeout=300, echo=False)
    shell.sendline(f"PATH={Path(sys.executable).parent}:$PATH; PS1='{PROMPT[:2]}''{PROMPT[2:]}'; PROMPT_COMMAND=")
    shell.expect(PROMPT)

    def type_in(command: str, *answers: str, exit_code: int | Collection[int] = 0) -> str:
        shell.sendline(command)
        said = ""
        for answer in answers:
            shell.expect(r"\n> ")
            said += shell.before
            shell.sendline(answer)
        shell.expect(PROMPT)
        said += shell.before
        shell.sendline("echo code=$?")
        shell.expect(r"code=(\d+)\r\n")
        assert int(shell.match[1]) in (exit_code if isinstance(exit_code, Collection) else [exit_code]), said
        shell.expect(PROMPT)
        return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", said).replace("\r\n", "\n")

    yield type_in
    shell.close(force=True)


def pass_check(clone: Path, name: str) -> None:
    """Do what the check of a solution does; test_selftest.py tries it from end to end."""
    part = find_part(name)
    remember(State(clone), part, Verdict(name, Outcome.DONE, ()), (clone / part.script).read_bytes())


def number_of(clone: Path, source: str, script: str = "train.py") -> str:
    """The number of a line of the participant's script, as the table of kernprof shows it."""
    lines = [line.strip() for line in (clone / script).read_text().splitlines()]
    return str(lines.index(source) + 1)


def edit(clone: Path, old: str, new: str) -> None:
    script = clone / "train.py"
    text = script.read_text()
    assert old in text
    script.write_text(text.replace(old, new))


def states(listed: str) -> list[str]:
    return [line.partition("part")[0].strip() for line in listed.splitlines() if re.search(r" part\d+ ", line)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_whole_path(type_in: Type, clone: Path, data: Path) -> None:
    profile = f"kernprof -lv train.py small.py --data {data} --device cpu"
    check = f"--data {data} --device cpu"
    parts = len(all_parts())

    def words(*typed: str, exit_code: int | Collection[int] = 0) -> str:
        return " ".join(type_in(*typed, exit_code=exit_code).split())

    listed = type_in("workshop list")
    assert states(listed) == ["open"] * parts
    assert max(map(len, listed.splitlines())) <= 80
    assert listed.splitlines()[-3:] == ["Welcome. First see whether this machine is ready.", "", "    workshop doctor"]
    assert "part 2: find the line: workshop show part2" in words("PAGER=cat workshop show").lower()

    assert "'cpus' is no answer to this" in words(f"workshop check part1 cpus {check}", exit_code=2)
    said = words(f"workshop check {check}", "cpus", "none")
    assert "busy most of the time: cpu, gpu, or none?" in said
    assert "'cpus' is no answer to this; choose one of cpu, gpu, none" in said
    assert "What you know now: Idle cores" in said
    assert "part1 is finished. Next is part2" in said

    assert "there is no train.py.lprof" in words("workshop check part2", exit_code=1)
    assert "for images, targets in batches:" in words(profile)
    table = type_in("workshop lines")
    assert "for images, targets in batches:" in table
    assert max(map(len, table.splitlines())) <= 80
    wrong, right = number_of(clone, "loss.backward()"), number_of(clone, "for images, targets in batches:")
    assert ANOTHER_LINE in words("workshop check part2", wrong, exit_code=1)
    assert "part2, hint 1 of 3" in words("workshop hint")
    assert "part2 is finished. Next is part3" in words("workshop check part2", right)

    edit(clone, "shuffle=True)", "shuffle=True, num_workers=4)")
    assert "the profile is stale" in words(f"workshop check part2 --answer {right}", exit_code=1)
    checked = type_in(f"workshop check part3 {check}", exit_code=(0, 1, 4))  # a race, which a busy machine may lose
    verdict = checked.rpartition("part3: ")[2]
    assert re.search(r"speedup [\d.]+x, the mean of \d+ pairs", verdict), checked
    assert max(map(len, verdict.splitlines())) <= 80
    pass_check(clone, "part3")
    edit(clone, "    def __getitem__", "    @profile\n    def __getitem__")
    assert "in 5 processes" in words(f"workshop record lines -- train.py small.py {check}")
    table = type_in("workshop lines --function __getitem__")
    assert "time.sleep(self.wasted_time)" in table
    assert max(map(len, table.splitlines())) <= 80
    slept = number_of(clone, "time.sleep(self.wasted_time)")
    assert "part4 is finished. Next is part5" in words("workshop check part4", slept)

    for part in ("part5", "part6"):
        assert "--- train.py" in words(f"workshop diff {part} --yes | cat")
        words(f"workshop solution {part} --write --yes")
        pass_check(clone, part)
    assert states(type_in("workshop list")) == ["done", "done", EDITED, "done", EDITED, "done"] + ["open"] * (parts - 6)

    words("workshop reset")
    says = words("workshop check part7", exit_code=1)
    assert "there is no recording of train.py in py-spy-outputs here; if it is elsewhere, say --recording" in says
    assert "samples of 1 process in" in words(f"workshop record py-spy --idle -- python train.py small.py {check}")
    slept = number_of(clone, "time.sleep(self.wasted_time)")
    assert "part7 is finished. Next is part8" in words("workshop check part7", slept)

    assert "there is no trace of train.py in prof" in words("workshop check part8", exit_code=1)
    assert "1 trace in prof" in words(f"workshop record torch --stop --wait 1 -- train.py small.py {check}")
    assert "the training waits for data" in words("workshop trace")
    assert "part8 is finished. Next is part9" in words("workshop check part8", "data")

    assert "lattice.py is here. What to do with it" in words("workshop start")
    pass_check(clone, "part9")

    ranks = f"torchrun --nproc_per_node=2 train.py bad_node.py {check}"
    words("workshop solution part10 --write --yes")
    says = words("workshop check part10 --answer 0", exit_code=1)
    assert "there is no trace of train.py on 2 ranks in prof, prof-2, ... here; if it is in another folder, say" in says
    assert "2 traces in prof-2" in words(f"workshop record torch --wait 1 -- workshop {ranks}")
    found = words("workshop trace")
    assert "reading prof-2, the newest recording here" in found
    assert "prof-2 is a newer recording than prof: workshop trace prof-2" in words("workshop trace prof")
    slow = chosen_rank(2, clone)
    assert f"rank {slow} is the slowest" in found
    assert "another one works more" in words(f"workshop check part10 --answer {1 - slow} {check}", exit_code=1)
    assert "part10 is finished. " in words(f"workshop check part10 --answer {slow} {check}")

    listed = type_in("workshop list")
    assert states(listed) == ["done", "done", EDITED, "done", EDITED, EDITED, *["done"] * 4, "open", "open"]
    assert len(list(clone.glob("train-*.py"))) == 4, "mine, two solutions, and the untouched one"


@pytest.mark.acceptance
@pytest.mark.timeout(480)
def test_a_script_that_nobody_has_seen(type_in: Type) -> None:
    def words(*typed: str, exit_code: int = 0) -> str:
        return " ".join(type_in(*typed, exit_code=exit_code).split())

    seed = case_names(find_part("part11")).index("tide_levels") + 1
    assert "tide_levels.py is here" in words(f"workshop start part11 --seed {seed}")
    assert "tiny-operators tide_levels.py:20" in words("workshop measure --seconds 5 tide_levels.py")
    assert "the cause is not own-work" in words("workshop check part11 --answer 20:own-work", exit_code=1)
    words("workshop solution part11 --write --yes")
    check = "workshop check part11 --answer 20:tiny-operators"
    said = words(f"{check} || {check} || {check}")  # a noisy machine may leave it undecided, and says to try again
    assert "x over the untouched script: 20 steps took" in said
    assert "tide_levels.py is finished; 1 script solved, in" in said
    assert "workshop start part11" in said
    assert states(type_in("workshop list"))[-2:] == ["done", "open"]


@pytest.mark.acceptance
@pytest.mark.timeout(480)
def test_the_line_that_holds_the_memory(type_in: Type) -> None:
    def words(*typed: str, exit_code: int = 0) -> str:
        return " ".join(type_in(*typed, exit_code=exit_code).split())

    assert "nowcast.py is here" in words("workshop start part12")
    found = words("workshop memory nowcast.py --epochs 100")
    assert re.search(r"graph-kept nowcast.py:\d+, in main pairs.append\(\(forecast, fallen\)\)", found)
    assert ".detach() lets only the graph go" in found
    assert NOTHING_CHANGED in words("workshop check part12", exit_code=1)
    words("workshop solution part12 --write --yes")
    check = "workshop check part12"
    said = words(f"{check} || {check} || {check}")  # a noisy machine may leave it undecided
    assert "part12: done" in said
    assert "of 32 MiB that are allowed" in said
    assert "part12 is finished." in said
    assert states(type_in("workshop list"))[-1] == "done"
