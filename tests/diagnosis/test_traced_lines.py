"""What is made of a trace of some steps: the table of lines, and which lines only wait for the GPU."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_measurements import made_steps
from made_traces import STEP, event, write

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.causes.gpu import gpu_findings
from workshop.diagnosis.causes.launch_loops import one_for_each_loop
from workshop.diagnosis.causes.other_work import OWN_WORK, other_work_findings
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.findings import finding, gain_of
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations, Sample
from workshop.diagnosis.stages import measure
from workshop.diagnosis.traced_lines import traced_lines
from workshop.pages.measurement_page import page
from workshop.probe.messages import Circumstances
from workshop.probe.observations import OperatorWork, Role
from workshop.probe.phases import MARK, STEP_END, Phase
from workshop.profiles.stacks import Frame
from workshop.traces.code_places import CodePlace
from workshop.traces.step_lines import LinePart

TRAIN = """
net = Net()
for batch in batches:
    loss = net(batch)
    loss.backward()
    opt.step()
    opt.zero_grad()
    log(loss)
"""
ZERO, LOG = 7, 8
STEP_MS = 20.0


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def frame(script: Path, line: int) -> Frame:
    return Frame("<module>", str(script), line)


def part(script: Path, line: int, phase: Phase, host_ms: float, device_ms: float = 0.0, **more: Any) -> LinePart:
    seconds = dict.fromkeys(("alone_s", "result_s", "queue_s", "results"), 0.0) | more
    seconds |= {"host_s": host_ms / 1e3, "device_s": device_ms / 1e3}
    place = CodePlace(str(script), line, "<module>")
    return LinePart(place, phase, **({"launches": 1.0, "waits_for": None} | seconds))  # type: ignore[arg-type]


def measured(script: Path, line: int, ms: float, traced: tuple[LinePart, ...], every: int = 5) -> Measurement:
    """Steps of 20 ms, in every k-th of which a line is sampled for some milliseconds, else the optimizer."""
    samples, count = [], 20
    for number in range(count):
        spent_ms = ms if number % every == 0 else 0.0
        for at, seconds, phase in ((4, line, Phase.OTHER), (6, 6, Phase.OPTIMIZER)):
            weight_s = (spent_ms if phase is Phase.OTHER else STEP_MS - spent_ms) / 1e3
            time_s = (number + at / 10) * STEP_MS / 1e3
            samples += [Sample(time_s, weight_s, 1, Role.TRAINING, str(phase), (frame(script, seconds),))] * bool(
                weight_s
            )
    phases = {Phase.OTHER: ms / every, Phase.OPTIMIZER: STEP_MS - ms / every}
    steps = made_steps(phases, count)
    circumstances, observations = Circumstances("cuda"), Observations(samples)
    return Measurement(steps, steps, circumstances=circumstances, observations=observations, traced=traced)


def test_a_wait_for_room_in_the_queue_is_no_work_of_the_line(script: Path) -> None:
    """The host takes 0.1 ms of a step for the line, and is seen in it for 3: it waits for the GPU."""
    without = measured(script, ZERO, 15.0, ())
    assert [(each.cause, each.line) for each in other_work_findings(without)] == [("own-work", ZERO)]
    waits, trains = part(script, ZERO, Phase.OPTIMIZER, 0.1, 0.1), part(script, 4, Phase.FORWARD, 1.0, 15.0)
    assert other_work_findings(replace(without, traced=(waits, trains))) == []
    lines = diagnose(replace(without, traced=(waits, trains))).lines
    (shown,) = [each for each in lines if each.line == ZERO and each.host_ms is not None]
    assert (shown.waits_ms, shown.waits_for) == (pytest.approx(2.9), "train.py:4")


def test_no_line_waits_for_longer_than_the_gpu_works(script: Path) -> None:
    waits, trains = part(script, ZERO, Phase.OPTIMIZER, 0.1, 0.1), part(script, 4, Phase.FORWARD, 1.0, 0.4)
    (found,) = other_work_findings(measured(script, ZERO, 15.0, (waits, trains)))
    assert found.share == pytest.approx((3.0 - 0.5) / STEP_MS)


@pytest.mark.parametrize(("host_ms", "launches"), [(3.5, 1.0), (0.1, 0.0)])
def test_work_of_its_own_stays(host_ms: float, launches: float, script: Path) -> None:
    """The trace has as much of it, or nothing for which it could wait."""
    own = part(script, ZERO, Phase.OTHER, host_ms, launches=launches)
    (found,) = other_work_findings(measured(script, ZERO, 15.0, (own,)))
    assert found.share == pytest.approx(3.0 / STEP_MS)


def test_on_a_cpu_nothing_waits(script: Path) -> None:
    own = part(script, ZERO, Phase.OTHER, 0.1)
    found = replace(measured(script, ZERO, 15.0, (own,)), circumstances=Circumstances("cpu"))
    assert [each.line for each in other_work_findings(found)] == [ZERO]


def synced(script: Path, line: int, traced: tuple[LinePart, ...]) -> Measurement:
    """A line that takes 10 ms of a step, and nothing if the phase before has waited for the GPU."""
    found = measured(script, line, 10.0, traced, every=1)
    later = made_steps({Phase.OPTIMIZER: STEP_MS}, 20, began_s=100.0)
    return replace(found, synchronized=later)


def test_a_line_that_waits_for_a_result_is_told_with_the_line_that_it_waits_for(script: Path) -> None:
    asked = CodePlace(str(script), 4, "<module>")
    waits = part(script, LOG, Phase.OTHER, 0.1, results=1.0, result_s=0.01, waits_for=asked)
    (found,) = gpu_findings(synced(script, LOG, (waits,)))
    assert (found.cause, found.line) == ("device-sync", LOG)
    assert "all it was asked to, the largest part of it in train.py:4," in found.words
    at_once = part(script, LOG, Phase.OTHER, 0.1, results=1.0)
    assert gpu_findings(synced(script, LOG, (at_once,))), "in traced steps, the GPU was not behind"
    (found,) = gpu_findings(synced(script, LOG, ()))
    assert "all it was asked to, and the GPU then waits" in found.words


def test_a_line_that_only_launches_does_not_wait_for_a_result(script: Path) -> None:
    waits = part(script, ZERO, Phase.OPTIMIZER, 0.1, 0.1, queue_s=0.01)
    assert gpu_findings(synced(script, ZERO, (waits,))) == []


def test_the_table_has_the_host_and_the_gpu_of_each_line(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = CodePlace(str(script), 4, "<module>")
    unknown = part(script, 0, Phase.OPTIMIZER, 0.0, 2.0)._replace(place=CodePlace("", 0, note="a reason"))
    parts = (
        part(script, 4, Phase.FORWARD, 1.0, 6.0),
        part(script, 4, Phase.BACKWARD, 2.0, 9.0),
        part(script, ZERO, Phase.OPTIMIZER, 0.1, 0.0, queue_s=0.003, alone_s=0.0001, waits_for=asked),
        unknown,
    )
    diagnosis = diagnose(measured(script, ZERO, 15.0, parts))
    print_diagnosis("train.py", diagnosis)
    shown = capsys.readouterr().out.splitlines()
    (head,) = [number for number, line in enumerate(shown) if line.startswith("in traced steps")]
    rows = [line.split() for line in shown[head : head + 5]]
    assert rows[1:] == [
        ["train.py:4", "3.0", "15.0"],
        [f"train.py:{ZERO}", "0.1", "3.0", "train.py:4"],
        ["no", "stack:", "a", "reason", "2.0"],
        ["together", "3.1", "17.0", "3.0"],
    ]
    assert max(map(len, shown[head : head + 5])) <= 80
    found = json.loads(json.dumps(diagnosis.as_dict()))
    assert found["traced_on"] == "cuda"
    assert sum(each["device_ms"] for each in found["lines"] if each["device_ms"]) == pytest.approx(17.0)
    of_phase = [each for each in found["lines"] if each["phase"] == Phase.OPTIMIZER]
    assert sum(each["share"] for each in of_phase) == pytest.approx(found["phases"][Phase.OPTIMIZER]["share"])
    assert "train.py:4" in page("train.py", found, diagnosis.sources())


def test_places_get_the_paths_and_functions_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("\n\ndef main():\n    for _ in range(3):\n        step()\n        loss()\n\n\n")
    (tmp_path / "model.py").write_text("\n" * 7 + "def forward(x):\n    return linear(x)\n")
    marks = [event("user_annotation", STEP_END, ts, 0) for ts in (0, 1000)]
    forward = event("user_annotation", f"{MARK}{Phase.FORWARD}", 100, 100)
    events = [each for one in (*STEP, *marks, forward) for each in ([one] if isinstance(one, dict) else one)]
    write(tmp_path / "7.pt.trace.json", {"traceEvents": events})
    work = OperatorWork(0.0, os.getpid(), 1, trace="7.pt.trace.json")
    main = Frame("main", str(tmp_path / "train.py"), 5)
    sample = Sample(1.0, 0.1, 1, Role.TRAINING, str(Phase.FORWARD), (main,))
    found = traced_lines(tmp_path, Observations([sample], operators=work), "train.py")
    places = {each.place for each in found}
    assert CodePlace(str(tmp_path / "train.py"), 5, "main") in places
    assert CodePlace(str(tmp_path / "model.py"), 9, "forward") in places
    assert traced_lines(tmp_path, Observations([sample]), "train.py") == ()


EXPERTS = """
def main():
    for batch in batches:
        for expert in experts:
            rows = picked(expert)
            out = mixed(expert, rows)
        loss(out)
        step()
"""
PICKED, MIXED, LOSS, STEPS = 5, 6, 7, 8


def loop_of_experts(tmp_path: Path, launches: float) -> Measurement:
    """Lines of a loop that take 6 and 4 ms of a step of 20, one behind it that takes 3, and a step for the rest."""
    (tmp_path / "experts.py").write_text(EXPERTS)
    script, samples = tmp_path / "experts.py", []
    spent = ((PICKED, Phase.OTHER, 6.0), (MIXED, Phase.OTHER, 4.0), (LOSS, Phase.OTHER, 3.0))
    trained = ((STEPS, Phase.BACKWARD, 4.0), (STEPS, Phase.OPTIMIZER, 3.0))
    for number in range(20):
        for at, (line, phase, ms) in enumerate((*spent, *trained), start=1):
            path = (Frame("main", str(script), line),)
            time_s = (number + at / 10) * STEP_MS / 1e3
            samples.append(Sample(time_s, ms / 1e3, 1, Role.TRAINING, str(phase), path))
    steps = made_steps({Phase.OTHER: 13.0, Phase.BACKWARD: 4.0, Phase.OPTIMIZER: 3.0}, 20)
    parts = tuple(part(script, line, Phase.OTHER, 9.0, 1.0, launches=launches) for line in (PICKED, MIXED, LOSS))
    circumstances = Circumstances("cuda")
    return Measurement(steps, circumstances=circumstances, observations=Observations(samples), traced=parts)


def test_lines_of_a_loop_of_launches_are_one_finding(tmp_path: Path) -> None:
    """Each is watched to see what it makes, so that each would be found by itself."""
    before = [
        finding(
            OWN_WORK,
            "",
            gain=gain_of(1.0, 1.0 - share),
            ms_a_step=share * STEP_MS,
            share=share,
            path=(Frame("main", str(tmp_path / "experts.py"), line),),
        )
        for line, share in ((MIXED, 0.2), (LOSS, 0.15), (PICKED, 0.3))
    ]
    loss, loop = one_for_each_loop(loop_of_experts(tmp_path, 8.0), before)
    assert loss == before[1]
    assert (loop.line, loop.beside) == (PICKED, {MIXED: 0.2})
    assert loop.saved_ms == pytest.approx(10.0)
    assert loop.gain == pytest.approx(1.0 + loop.margin * 1.0), "half of a step"
    assert loop.words.endswith("The loop in line 4 launches 16 kernels a step.")
    assert one_for_each_loop(loop_of_experts(tmp_path, 0.0), before) == before, "nothing is launched"


def test_the_loop_of_the_training_is_none_of_launches(tmp_path: Path) -> None:
    (found,) = [each for each in diagnose(loop_of_experts(tmp_path, 8.0)).findings if each.line in (PICKED, MIXED)]
    assert found.together == pytest.approx(10.0 / STEP_MS)
    assert all(
        "launches" not in each.words for each in diagnose(loop_of_experts(tmp_path, 8.0)).findings if each.line == LOSS
    )


LEARNS = """
import torch
from net import Net

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
rows = torch.ones(16, 32)
while True:
    optimizer.zero_grad()
    loss = net(rows).sum()
    loss.backward()
    optimizer.step()
    for number in range(7):
        torch.tanh(rows)
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 4)

    def forward(self, rows):
        return self.layer(rows)
"""


@pytest.mark.slow
def test_a_real_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On a CPU, where operators take the place of kernels."""
    monkeypatch.setattr("workshop.diagnosis.stages.MAX_DURATION_S", 0.0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "learns.py").write_text(LEARNS)
    (tmp_path / "net.py").write_text(NET)
    found = measure("learns.py", [], 0.3, lambda _: None, headroom=False, traced=True)
    ran = {(Path(each.place.file).name, each.place.line, each.phase): each.launches for each in found.traced}
    assert ran["learns.py", 14, Phase.OTHER] == 7, "times a step"
    forward, backward = (ran["net.py", 10, phase] for phase in (Phase.FORWARD, Phase.BACKWARD))
    assert min(forward, backward) >= 3
    assert forward == int(forward), "as much in each step"
    assert ran["learns.py", 12, Phase.OPTIMIZER] > 0
    print_diagnosis("learns.py", diagnose(found))
    assert "in traced steps" in capsys.readouterr().out
    (untraced,) = [measure("learns.py", [], 0.1, lambda _: None, headroom=False)]
    assert untraced.traced == ()
