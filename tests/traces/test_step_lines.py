"""What each line takes in steps that were traced, on the host and on the device, by phase; and what it waits for."""

from typing import Any

import pytest
from made_traces import STEP, event, function, kernel, launched

from workshop.probe.phases import MARK, STEP_END, Phase
from workshop.traces.step_lines import FULL_QUEUE, LinePart, line_parts

US = 1e-6


def end_of_step(ts: float) -> Any:
    return event("user_annotation", STEP_END, ts, 0)


def phase(which: Phase, ts: float, dur: float) -> Any:
    return event("user_annotation", f"{MARK}{which}", ts, dur)


def copied(name: str, call: tuple[float, float], run: tuple[float, float]) -> list[Any]:
    asked, ran = launched(name, call, run)
    return [asked | {"name": "cudaMemcpyAsync"}, ran]


PHASES = (
    end_of_step(0),
    phase(Phase.DATA_WAIT, 10, 20),
    phase(Phase.FORWARD, 100, 100),
    phase(Phase.BACKWARD, 300, 200),
    phase(Phase.OPTIMIZER, 600, 50),
)


def by_line(parts: list[LinePart], field: str) -> dict[tuple[str, str], float]:
    """A field of each part in µs, by place and phase, where it is not 0."""
    found = {(each.place.name, each.phase.short): getattr(each, field) / US for each in parts}
    return {place: round(us, 6) for place, us in found.items() if us}


def test_a_kernel_counts_to_the_phase_that_its_launch_was_in(trace: Any) -> None:
    found = line_parts(trace(*PHASES, *STEP, end_of_step(1000)))
    assert by_line(found, "device_s") == {
        ("model.py:9", "forward"): 40,
        ("model.py:8 in forward", "forward"): 5,
        ("model.py:9", "backward"): 80,
        ("model.py:8 in forward", "backward"): 6,
        ("train.py:6", "backward"): 7,
        ("train.py:7", "optimizer"): 20,
    }
    assert sum(each.launches for each in found) == 6


def test_the_host_is_in_one_line_at_a_time_while_another_thread_runs_a_backward_pass(trace: Any) -> None:
    found = line_parts(trace(*PHASES, *STEP, end_of_step(1000)))
    host = by_line(found, "host_s")
    assert host["train.py:6", "backward"] == 200 - 50 + 10, "without what the other thread does, but with its own there"
    assert host["model.py:9", "backward"] == 30
    assert sum(host.values()) == 1000
    assert by_line(found, "alone_s") == host, "the kernels run later"


def test_times_are_those_of_a_step_and_of_what_was_asked_for_within_steps(trace: Any) -> None:
    shifted = [each | {"ts": each["ts"] + 10_000} for each in (*PHASES, *STEP)]
    outside = (function("torch/x.py(1): f", 30_000, 50, "train.py:99"), *kernel(30_010, 40))
    one, two = (
        line_parts(trace(*parts, *outside))
        for parts in ((*PHASES, *STEP, end_of_step(1000)), (*PHASES, *STEP, *shifted, end_of_step(11_000)))
    )
    assert by_line(one, "device_s") == by_line(two, "device_s")


def test_without_marks_there_are_no_steps(trace: Any) -> None:
    assert line_parts(trace(*STEP)) == []
    assert line_parts(trace(end_of_step(0), *STEP)) == []


def test_a_moment_is_the_devices_or_the_hosts_alone(trace: Any) -> None:
    call = function("torch/f.py(1): f", 0, 100, "train.py:3")
    found = line_parts(trace(end_of_step(0), call, launched("gemm", (10, 5), (30, 50)), end_of_step(100)))
    assert by_line(found, "device_s") == {("train.py:3", "other"): 50}
    assert by_line(found, "alone_s") == {("train.py:3", "other"): 50}
    assert by_line(found, "host_s") == {("train.py:3", "other"): 100}


@pytest.mark.parametrize(
    ("calls", "waits"),
    [
        ([event("cuda_runtime", "cudaStreamSynchronize", 120, 300, correlation=9001)], 280),
        ([event("cuda_runtime", "cudaStreamSynchronize", 420, 100, correlation=9001)], 0),
        (copied("Memcpy DtoH (Device -> Pageable)", (120, 300), (410, 5)), 280 + 5),
        (copied("Memcpy DtoH (Device -> Pinned)", (120, 10), (410, 5)), 0),
    ],
)
def test_a_line_that_waits_for_a_result(calls: list[Any], waits: float, trace: Any) -> None:
    found = line_parts(
        trace(
            end_of_step(0),
            function("torch/linear.py(1): f", 0, 50, "model.py:9"),
            launched("gemm", (10, 5), (20, 100)),
            launched("gemm", (20, 5), (120, 280)),
            function("torch/linear.py(1): f", 50, 50, "model.py:10"),
            launched("gemm", (60, 5), (400, 0)),
            function("<built-in method item of Tensor object>", 110, 490, "train.py:7"),
            *calls,
            end_of_step(1000),
        )
    )
    (line,) = [each for each in found if each.place.name == "train.py:7"]
    assert line.result_s / US == pytest.approx(waits)
    assert line.host_s / US == pytest.approx(490 - waits)
    assert (line.waits_for.name if line.waits_for else "") == ("model.py:9" if waits else "")
    assert line.queue_s == 0


def test_a_line_that_waits_for_room_in_the_queue(trace: Any) -> None:
    """The device takes 100 µs for each launch of 5 µs. Once it is far behind, a launch takes as long as a kernel."""
    launches = [launched("gemm", (10 * n, 5), (10 + 100 * n, 100)) for n in range(FULL_QUEUE + 200)]
    began = 10 * len(launches) + 10
    zeros = [launched("fill", (began + 100 * n, 95), (150_000 + 10 * n, 10)) for n in range(20)]
    waiting = function("torch/optim/optimizer.py(1): zero_grad", began, 2000, "train.py:7")
    trained = function("torch/linear.py(1): f", 0, began - 5, "model.py:9")
    (zeroed,) = [
        each
        for each in line_parts(trace(end_of_step(0), trained, *launches, waiting, *zeros, end_of_step(200_000)))
        if each.place.name == "train.py:7"
    ]
    assert zeroed.queue_s / US == pytest.approx(20 * (95 - 5)), "a launch takes 5 by itself"
    assert zeroed.host_s / US == pytest.approx(2000 - 20 * 90)
    assert zeroed.result_s == 0
    assert zeroed.waits_for
    assert zeroed.waits_for.name == "model.py:9"


def test_a_long_launch_is_no_wait_where_the_device_is_not_behind(trace: Any) -> None:
    call = function("torch/f.py(1): f", 0, 900, "train.py:3")
    long = [launched("gemm", (100 * n, 95), (100 * n + 90, 100)) for n in range(8)]
    (line,) = line_parts(trace(end_of_step(0), call, *long, end_of_step(900)))
    assert (line.queue_s, line.result_s, line.waits_for) == (0, 0, None)


def test_the_phase_inside_of_another_one_counts(trace: Any) -> None:
    inner = [function("torch/f.py(1): f", 10 * n, 10, f"train.py:{n}") for n in range(1, 6)]
    marks = phase(Phase.FORWARD, 10, 50), phase(Phase.BACKWARD, 20, 10)
    found = by_line(line_parts(trace(end_of_step(0), *marks, *inner, end_of_step(100))), "host_s")
    assert dict(found.keys()) == {
        "train.py:1": "forward",
        "train.py:2": "backward",
        **dict.fromkeys(("train.py:3", "train.py:4", "train.py:5"), "forward"),
    }


def test_on_a_cpu_operators_take_the_place_of_kernels(trace: Any) -> None:
    on_cpu = [each for each in STEP if each["cat"] not in ("kernel", "cuda_runtime")]
    found = line_parts(trace(*PHASES, *on_cpu, end_of_step(1000)))
    assert by_line(found, "device_s") == {
        ("model.py:9", "forward"): 10,
        ("model.py:8 in forward", "forward"): 10,
        ("model.py:9", "backward"): 30,
        ("model.py:8 in forward", "backward"): 10,
        ("train.py:6", "backward"): 10,
    }
    assert sum(each.device_s + each.alone_s for each in found) == pytest.approx(1000 * US)
