"""The result of `workshop tune`: printed, drawn, proven, and written only if it is proven."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from browsers import visited
from conftest import Run
from made_measurements import made_steps
from rich.console import Console
from said import MadeReason

from workshop.cli.tuning_text import print_tuning
from workshop.diagnosis.findings import Finding
from workshop.errors import WorkshopError
from workshop.judge.running_scripts import RunningScripts
from workshop.judge.verdict import Outcome, Speed, Verdict, VerdictReason
from workshop.pages.tuning_page import page
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.phases import Phase
from workshop.runs.other_load import OtherLoad
from workshop.runs.script_error import ScriptError
from workshop.tuning.edit_proof import with_proof
from workshop.tuning.loader_edit import edit
from workshop.tuning.tried_settings import SettingOutcome, TriedSetting
from workshop.tuning.tuning_result import Advice, AdviceKind, AdviceReason, Tuning

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = """
from torch.utils.data import DataLoader
if __name__ == "__main__":
    loader = DataLoader(Stored(), batch_size=8, shuffle=True)
"""


def made(tmp_path: Path, **fields: Any) -> Tuning:
    """A result as a run of the script gives it."""
    (tmp_path / "mine.py").write_text(SCRIPT)
    present, taken = LoaderSettings(), LoaderSettings(8, persistent=True)
    of_eight = TriedSetting(LoaderSettings(8), [12.0, 12.4, 12.1], 8.0, 0.4, 900_000_000, 40_000)
    tried = (
        TriedSetting(present, [95.0, 96.0, 97.0], 8.0, memory_bytes=500_000_000, became=SettingOutcome.AS_IT_IS),
        replace(of_eight, became=SettingOutcome.TO_TAKE),
        TriedSetting(LoaderSettings(16), why_not="would need 17.0 GB of memory, and 16.0 GB are allowed"),
    )
    usual: dict[str, Any] = {
        "steps": made_steps({Phase.DATA_WAIT: 80.0, Phase.FORWARD: 16.0}),
        "headroom": made_steps({Phase.FORWARD: 11.0}),
        "present": present,
        "tried": tried,
        "edit": edit(tmp_path / "mine.py", 4, taken, present),
    }
    return Tuning(**{"reason": AdviceReason(AdviceKind.FASTER, taken, 7.9), **usual, **fields})


def test_a_result_fits_into_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str], terminal: None) -> None:
    print_tuning("mine.py", made(tmp_path), None, "workshop tune --write mine.py")
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if not line.startswith(("+", "-"))]
    assert max(map(len, rows)) <= 80
    assert "mine.py: take num_workers=8, persistent_workers=True" in printed
    assert re.search(r"\n +8 +2 +65\d\.\d ±\S+ +█+\S* +900 MB +0\.4 s +to take", printed)
    assert "+    loader = DataLoader(Stored(), batch_size=8, shuffle=True, num_workers=8, " in printed
    assert "num_workers=16: would need 17.0 GB of memory, and 16.0 GB are allowed." in printed


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the output think that it goes to a terminal of 80 columns."""
    monkeypatch.setattr("workshop.cli.tuning_text.console", lambda: Console(highlight=False, width=80))
    monkeypatch.setattr("workshop.cli.output.terminal_width", lambda: 80)


def test_no_code_is_broken_within_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str], terminal: None) -> None:
    settings = LoaderSettings(8, threads=1, start_method="fork")
    tried = TriedSetting(settings, [12.1, 12.4, 11.2], 8.0, 0.4, 900_000_000, became=SettingOutcome.TO_TAKE)
    print_tuning("mine.py", made(tmp_path, tried=(tried,)), None, "")
    printed = capsys.readouterr().out
    assert "torch.set_num_threads(1);" in printed
    assert 'multiprocessing_context="fork";' in printed
    assert "█" in printed
    assert max(len(line) for line in printed.splitlines() if not line.startswith(("+", "-"))) <= 80


def test_on_a_busy_machine_figures_are_rough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_tuning("mine.py", made(tmp_path, machine=OtherLoad(2, 1.0)), None, "workshop tune --write mine.py")
    printed = capsys.readouterr().out
    assert "Busy machine: other programs used 1.0 of 2 cores" in printed
    assert "a step is about 7.90x faster" in printed


def test_what_limits_it_then_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = (str(tmp_path / "mine.py"), 10, "__getitem__", "worker")
    limit = Finding("slow-item", "data", *at, 8.0, 0.7, 3.0, 2.0, False, "Cache.", "")
    print_tuning("mine.py", made(tmp_path, limits=(limit,), waits_share=0.31), None, "")
    says = "- 31% of a step still waits for data. Then slow-item limits it, line 10 of mine.py in __getitem__: Cache."
    assert says in " ".join(capsys.readouterr().out.split())
    print_tuning("mine.py", made(tmp_path, limits=(limit,), reason=AdviceReason(AdviceKind.NOT_FASTER)), None, "")
    assert "- slow-item limits it, line 10 of" in " ".join(capsys.readouterr().out.split())


def test_no_limit_is_shown_below_what_was_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fastest setting reaches 658 samples a second; while batches came from memory, the machine was busier."""
    found = made(tmp_path, headroom=made_steps({Phase.FORWARD: 16.0}))
    print_tuning("mine.py", found, None, "")
    assert re.search(r"\n +≥ 657\.5 +█+ +from memory", capsys.readouterr().out)
    assert "from memory: ≥ 657.5" in page("mine.py", json.loads(json.dumps(found.as_dict())))
    print_tuning("mine.py", made(tmp_path), None, "")
    assert re.search(r"\n +727\.3 +█+ +from memory", capsys.readouterr().out)


FOR_CERTAIN = Speed("mine.py", "mine.py, tuned", 80.0, 600.0, 7.5, 7.0, 8.0, 9, 1.05, {}, {}, None, None)
UNDECIDED_SPEED = Verdict("", Outcome.UNDECIDED, (MadeReason.SAYS("too noisy"),), replace(FOR_CERTAIN, low=0.9))
SAME_WORK, OTHER = MadeReason.SAYS("Speedup 7.5x, same work"), MadeReason.SAYS("other")
CANNOT_SEE = VerdictReason.WORK_UNSEEN(MadeReason.SAYS("it draws in another way"))


@pytest.mark.parametrize(
    ("options", "verdict", "exit_code", "says"),
    [
        ("", Verdict("", Outcome.DONE, (SAME_WORK,), FOR_CERTAIN), 0, "Proven: Speedup 7.5x"),
        ("", UNDECIDED_SPEED, 0, "Proven to do the same work; how much faster, the judge cannot tell: too noisy"),
        ("", Verdict("", Outcome.UNDECIDED, (CANNOT_SEE,), FOR_CERTAIN), 4, str(CANNOT_SEE)),
        (
            "",
            Verdict("", Outcome.UNDECIDED, (OTHER,)),
            4,
            "it is not proven that it would do the same work",
        ),
        ("", WorkshopError("mine.py could not be judged"), 4, "Not proven: mine.py could not be judged."),
        ("", KeyboardInterrupt(), 130, "mine.py is not edited: Ctrl-C was pressed."),
        ("--no-proof", KeyboardInterrupt(), 0, "mine.py is edited."),
    ],
)
def test_only_what_is_proven_to_be_the_same_work_is_written(
    options: str,
    verdict: Verdict | BaseException,
    exit_code: int,
    says: str,
    workshop: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = Mock(side_effect=[verdict])
    monkeypatch.setattr("workshop.tuning.tuned_run.tune", lambda *_: made(tmp_path))
    monkeypatch.setattr("workshop.tuning.edit_proof._judged", judged)
    done = workshop("tune", "--write", *options.split(), "mine.py", "--lr", "1")
    assert done.returncode == exit_code, done.stderr
    printed = " ".join(done.stdout.split())
    assert says in printed
    assert judged.called is (options == "")
    edited = "num_workers=8" in (tmp_path / "mine.py").read_text()
    assert edited is (exit_code == 0)
    assert edited or "+ loader = DataLoader(Stored(), batch_size=8, shuffle=True, num_workers=8" in printed
    again = {4: "workshop tune --no-proof --write mine.py --lr 1", 130: "workshop tune --write mine.py --lr 1"}
    assert again.get(exit_code, "") in printed


def test_the_command_for_the_edit_has_the_same_limits(
    workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workshop.tuning.tuned_run.tune", lambda *_: made(tmp_path))
    done = workshop("tune", "--no-proof", "--memory", "16G", "--budget", "5m", "mine.py")
    assert "workshop tune --budget 5m --memory 16G --write mine.py" in " ".join(done.stdout.split())


def test_what_a_library_makes_is_not_written_and_said_so(
    workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "transformers makes this DataLoader: for TrainingArguments, set dataloader_num_workers=8."
    found = replace(made(tmp_path), edit=None, why_no_edit=why)
    monkeypatch.setattr("workshop.tuning.tuned_run.tune", lambda *_: found)
    done = workshop("tune", "--write", "--json", "mine.py")
    assert done.returncode == 4
    assert json.loads(done.stdout)["why_not_written"] == why
    assert workshop("tune", "mine.py").returncode == 0


def test_what_the_judge_does_not_confirm_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for outcome, advice, became in (
        (Outcome.OTHER_WORK, Advice.LEAVE, SettingOutcome.OTHER_WORK),
        (Outcome.NOT_YET, Advice.UNDECIDED, SettingOutcome.NOT_PROVEN),
    ):
        monkeypatch.setattr("workshop.tuning.edit_proof._judged", lambda *_, of=outcome: Verdict("", of, (OTHER,)))
        found = with_proof(made(tmp_path), "mine.py", [], False, 60.0, print)
        assert (found.advice, found.taken, found.edit, found.speedup) == (advice, None, None, 1.0)
        assert [each.became for each in found.tried if each.settings.workers == 8] == [became]


@pytest.mark.parametrize(
    ("ended", "outcome", "why"),
    [
        (Verdict("", Outcome.DONE, (SAME_WORK,), FOR_CERTAIN), Outcome.DONE, ""),
        (ScriptError("it ended", 1, "", ".mine-tuned.py"), Outcome.BROKEN, ""),
        (ScriptError("it ended", 1, "", "mine.py"), None, "mine.py could not be judged: it ended."),
    ],
)
def test_the_judge_is_given_the_script_and_its_edited_copy(
    ended: Verdict | ScriptError, outcome: Outcome | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made_tuning, given = made(tmp_path), []

    def judge(bench: RunningScripts) -> Verdict:
        contest = bench.contest
        given.append((contest.original.read_text(), contest.candidate.read_bytes(), contest.target, contest.subject))
        assert contest.candidate.parent == contest.original.parent
        if isinstance(ended, ScriptError):
            raise ended
        return ended

    monkeypatch.setattr("workshop.judge.bench.Bench.judge", judge)
    found = with_proof(made_tuning, "mine.py", [], False, 60.0, print)
    assert made_tuning.edit
    assert given == [(SCRIPT, made_tuning.edit.content, 1.05, "mine.py, tuned")]
    assert (found.verdict and found.verdict.outcome, found.why_no_proof) == (outcome, why)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"], "the copy is removed"


def test_a_search_that_ctrl_c_has_stopped_is_not_written(
    workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workshop.tuning.tuned_run.tune", lambda *_: made(tmp_path, interrupted=True))
    done = workshop("tune", "--write", "--no-proof", "mine.py")
    assert (done.returncode, (tmp_path / "mine.py").read_text()) == (130, SCRIPT)


def test_a_page_shows_each_setting(tmp_path: Path, browser: "Browser") -> None:
    path = tmp_path / "page.html"
    path.write_text(page("mine.py", json.loads(json.dumps(made(tmp_path).as_dict()))))
    with visited(browser, path) as shown:
        assert shown.locator("svg.curve circle").count() == 2
        assert shown.locator("table.figures tr").count() == 4
        assert "num_workers=8" in shown.locator("pre").inner_text()
