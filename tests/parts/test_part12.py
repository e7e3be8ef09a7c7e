"""Part 12: what its check says of the memory, of the validation and of the figures."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from said import labels

from workshop.course import checks
from workshop.course.state import State
from workshop.judge.contest import target_of
from workshop.judge.verdict import Outcome, Verdict
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import FollowedRun, follow
from workshop.parts import find_part
from workshop.parts.part12 import memory_check as part12
from workshop.parts.part12.nowcast import skill
from workshop.probe.memory.memory_notes import MemorySegment, TensorsOfDevice

PART = find_part("part12")

LOOP = """
    for seen, fallen in loader:
        total += nn.functional.mse_loss(model(seen.to(device)), fallen.to(device))
"""

NO_GRAPH = """
    with torch.no_grad():
        for seen, fallen in loader:
            total += nn.functional.mse_loss(model(seen.to(device)), fallen.to(device))
"""


def run(mib: float, grown_mib: int = 0, name: str = "training") -> FollowedRun:
    """A run with so much at its peak, in step 7."""
    of = TensorsOfDevice("cpu", int(mib * part12.MIB), 0, None, 0, ())
    lower = TensorsOfDevice("cpu", part12.MIB, 0, None, 0, ())
    steps = [
        MemorySegment(0.0, 1, 1, each, step, (size,), (), (), ())
        for each, step, size in (("training", 6, lower), (name, 7, of))
    ]
    return FollowedRun(MemoryRecord(segments=steps), 8, grown_mib * part12.MIB)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (run(20.0), ""),
        (run(32.5), "32.5 MiB of tensors at the peak, in step 7; the limit is 32 MiB"),
        (run(140, name="validation"), "140.0 MiB of tensors at the peak, in the validation after step 7; the limit is"),
        (run(20.0, grown_mib=16), ""),
        (run(20.0, grown_mib=17), "the process has grown by 17 MiB after its first steps, and its tensors do not"),
    ],
)
def test_more_than_the_limit(seen: FollowedRun, says: str) -> None:
    verdict = part12.over_the_limit(seen, "part12", "nowcast.py")
    if not says:
        assert verdict is None
        [within] = part12.within(seen)
        assert str(within) == "20.0 MiB of tensors at the peak, in step 7, of 32 MiB that are allowed"
        return
    assert verdict is not None
    assert (verdict.outcome, str(verdict.next)) == (Outcome.NOT_YET, "workshop memory nowcast.py --epochs 100")
    assert str(verdict.reasons[0]).startswith(says)


def test_without_a_step_there_is_nothing_to_judge() -> None:
    verdict = part12.over_the_limit(replace(run(1.0), record=MemoryRecord()), "part12", "nowcast.py")
    assert verdict is not None
    assert verdict.outcome is Outcome.OTHER_WORK


ORIGINAL = "Epoch 1: loss 0.0270, in validation 0.0246, skill 0.366"


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        (ORIGINAL, []),
        ("Epoch 1: loss 0.0271, in validation 0.0246, skill 0.365", []),
        ("Epoch 1: loss 0.0270, in validation 0.0277, skill 0.366", ["OTHER_FIGURES"]),
        ("Epoch 1: loss 0.0270, in validation 0.0246, skill 0.000", ["OTHER_FIGURES"]),
        ("Epoch 1: loss 0.0270", ["OTHER_FIGURES"]),
        ("", ["NO_FIGURES"]),
    ],
)
def test_the_figures_of_an_epoch_must_be_the_same(line: str, kinds: list[str]) -> None:
    assert [each.kind.name for each in part12.other_figures(ORIGINAL, line)] == kinds


def test_it_may_be_somewhat_slower() -> None:
    contest = checks.contest_of(PART, PART.solution, checks.config_of(PART, None), Path("unused"), "cpu")
    assert (contest.allowed, contest.target, contest.solution) == (0.25, target_of(0.25), None)


def half_fixed(tmp_path: Path, *edits: tuple[str, str]) -> Path:
    """The untouched script with some edits."""
    script = tmp_path / "nowcast.py"
    text = PART.untouched.read_text()
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    script.write_text(text)
    return script


def check(script: Path, data: Path) -> Verdict:
    return checks.check(PART, script, data, device="cpu", say=lambda _: None, state=State(script.parent))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "fixed",
    [
        pytest.param("validation", marks=pytest.mark.acceptance),
        pytest.param("list", marks=pytest.mark.slow),
        pytest.param("detached", marks=pytest.mark.acceptance),
    ],
)
def test_one_fault_alone_is_above_the_limit(fixed: str, tmp_path: Path, data: Path) -> None:
    edits = {
        "validation": [(LOOP, NO_GRAPH)],
        "list": [("pairs.append((forecast, fallen))", "pairs[:] = [(forecast, fallen)]")],
        "detached": [(LOOP, NO_GRAPH), ("pairs.append((forecast, ", "pairs.append((forecast.detach(), ")],
    }[fixed]
    verdict = check(half_fixed(tmp_path, *edits), data)
    assert verdict.outcome is Outcome.NOT_YET
    where = "memory-in-validation" if fixed == "list" else "memory-in-step"
    assert labels(verdict.reasons[:1]) == ["memory-over-limit", where]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_no_tensor_is_seen_in_the_process(tmp_path: Path) -> None:
    held = "pairs.append((forecast.detach().numpy().copy(), fallen.numpy().copy()))"
    script = half_fixed(tmp_path, (LOOP, NO_GRAPH), ("pairs.append((forecast, fallen))", held))
    refused = follow([str(script), "--epochs", "100", "--device", "cpu"], PART.steps + 1, say=lambda _: None)
    verdict = part12.over_the_limit(refused, "part12", "nowcast.py")
    assert verdict is not None
    assert labels(verdict.reasons) == ["memory-grows"]


def test_the_skill_is_the_share_of_the_rain_that_was_forecast() -> None:
    forecast, fallen = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert skill([(forecast, fallen), (fallen, fallen)]) == 3 / 5
    assert skill([(torch.zeros(4), torch.zeros(4))]) == 0.0
