"""What a training does beside loading and computing, in constructed samples; real: cli/test_measured_trainings.py."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_measurements import made_steps

from workshop.diagnosis.causes.growing_steps import _grows_on
from workshop.diagnosis.causes.other_work import other_work_findings
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.findings import Finding
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations, Sample
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.observations import LineRuns, LoaderIterated, Operand, Role
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame
from workshop.runs.measured_steps import MeasuredSteps

STEP_S = 0.1
ORDINALS = {2: "nd", 3: "rd"}

Found = Callable[..., list[Finding]]


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """What is found of steps, some of which spend half of their time in one line."""

    def find(
        text: str,
        durations_s: list[float],
        forwards: tuple[int, ...] = (),
        every: int = 1,
        library: tuple[Frame, ...] = (),
        function: str = "main",
        phase: Phase = Phase.OTHER,
        only_line_grows: bool = False,
    ) -> list[Finding]:
        script = tmp_path / "mine.py"
        script.write_text(f"{text}\noptimizer.step()\n")
        samples, end_s = [], 0.0
        for number, duration_s in enumerate(durations_s):
            end_s += duration_s
            line, other = (Frame(function, str(script), 1), *library), (Frame("main", str(script), 2),)
            stack, of = (line, phase) if number % every == 0 else (other, Phase.OPTIMIZER)
            rest_s = (durations_s[0] if only_line_grows else duration_s) / 2
            samples += [
                Sample(end_s - 0.2 * duration_s, rest_s, 1, Role.TRAINING, str(Phase.OPTIMIZER), other),
                Sample(end_s - 0.1 * duration_s, duration_s - rest_s, 1, Role.TRAINING, str(of), stack),
            ]
        phases_s = dict.fromkeys(Phase, 0.0) | {Phase.OTHER: end_s / 2, Phase.OPTIMIZER: end_s / 2}
        steps = MeasuredSteps(
            len(durations_s), end_s, phases_s, 80, tuple(durations_s), ended_s=end_s, forwards=forwards
        )
        return other_work_findings(Measurement(steps, observations=Observations(samples)))

    return find


def test_episodes_that_grow_are_no_steps_that_grow(found: Found) -> None:
    """A step of reinforcement learning takes as long as its episode: each call of the model takes the same time."""
    calls = tuple(range(10, 50))
    longer = [0.01 * number for number in calls]
    assert found("state = env.step(action)", longer, only_line_grows=True)[0].cause == "growing-steps"
    assert {each.cause for each in found("state = env.step(action)", longer, calls)} == {"own-work"}
    costlier = [0.01 * number * number / 10 for number in calls]
    assert found("total = sum(seen)", costlier, calls, only_line_grows=True)[0].cause == "growing-steps"


def test_what_may_be_done_less_often(found: Found) -> None:
    (saves,) = found("torch.save(model)", [STEP_S] * 40, every=4)
    assert (
        saves.words
        == "This takes 50 ms in every 4th step. Done less often, less is seen; where the model learns from it, "
        "less is learned."
    )
    (twice,) = found("torch.save(model)", [STEP_S] * 40, every=2)
    assert "in every 2nd step" in twice.words
    (validates,) = found("validate(model)", [STEP_S] * 40, every=1, phase=Phase.VALIDATION)
    assert validates.words.startswith(
        "This takes 50 ms in every step. Done less often, or with less of it, less is seen"
    )
    model = (Frame("forward", validates.file, 2),)
    (validates,) = found("model(batch)", [STEP_S] * 40, every=1, phase=Phase.VALIDATION, library=model)
    assert validates.line == 1, "the line that calls the model"
    metrics = (Frame("evaluate", validates.file, 2),)
    (validates,) = found("evaluate(model)", [STEP_S] * 40, every=1, phase=Phase.VALIDATION, library=metrics)
    assert (validates.line, validates.function) == (2, "evaluate")
    assert "in every step, in the validation that main calls in line 1. Done less often" in validates.words


@pytest.mark.parametrize("every", [2, 3, 5, 20])
@pytest.mark.parametrize("more", [1, 2, 3])
def test_the_period_of_periodic_work_is_that_of_the_loop(every: int, more: int, found: Found) -> None:
    """However few steps come before the first time and after the last: of 97 steps, five may come every 20th time."""
    for count in range(2 * every + more, 5 * every, more):
        durations_s = [STEP_S * (1 if number % every else 10) for number in range(count)]
        (saves,) = found("torch.save(model)", durations_s, every=every)
        assert f"500 ms in every {every}{ORDINALS.get(every, 'th')} step" in saves.words


@pytest.mark.parametrize("count", [11, 20, 21, 38, 41])
def test_the_share_of_periodic_work_is_that_of_whole_periods(count: int, found: Found) -> None:
    """However many steps there are before the first time and after the last."""
    (saves,) = found("torch.save(model)", [STEP_S] * count, every=10)
    assert saves.cause == "periodic-work"
    assert saves.share == pytest.approx(0.05)
    assert saves.ms_a_step == pytest.approx(5.0)


def test_where_the_steps_are_too_few_to_see_a_line_grow_that_is_said(found: Found) -> None:
    (early,) = found("total = sum(seen)", [STEP_S] * 8)
    assert early.words.endswith(
        " In 8 steps it cannot be seen whether it takes longer and longer: more steps, as with a larger --seconds of "
        "workshop measure, tell whether the cause is growing-steps."
    )
    (slightly,) = found("total = sum(seen)", [0.1] * 20 + [0.12] * 20, only_line_grows=True)
    assert slightly.cause == "own-work"
    assert " It took 50.0 ms in the first half of the steps and 70.0 ms in the second: more steps" in slightly.words
    (steady,) = found("total = sum(seen)", [STEP_S] * 40)
    assert "growing-steps" not in steady.words


def test_a_machine_that_gets_busier_makes_no_line_grow(found: Found) -> None:
    """All lines of a step take longer then."""
    growing = [0.01 * number for number in range(10, 50)]
    assert found("loss.backward()", growing, phase=Phase.BACKWARD) == []
    assert [each.cause for each in found("total = sum(seen)", growing, only_line_grows=True)][:1] == ["growing-steps"]


@pytest.mark.parametrize("busy_from", [8, 10, 15, 20, 25, 30])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_program_that_begins_to_use_the_cores_makes_no_step_grow(busy_from: int, seed: int, found: Found) -> None:
    """One line may be slowed much more than the rest, such as a backward pass that uses all cores."""
    noise = np.random.default_rng(seed).lognormal(sigma=0.05, size=40)
    durations_s = [float(0.01 * each * (1.0 + 0.8 * (at >= busy_from))) for at, each in enumerate(noise)]
    assert found("loss.backward()", durations_s, phase=Phase.BACKWARD, only_line_grows=True) == []
    growing = [float(0.01 * each * (1.0 + 0.02 * at)) for at, each in enumerate(noise)]
    causes = [each.cause for each in found("loss.backward()", growing, phase=Phase.BACKWARD, only_line_grows=True)]
    assert causes == ["growing-steps"]


def test_short_steps_that_grow_by_chance_are_nothing_beside_a_long_step(found: Found) -> None:
    """Between the steps in which a line takes 200 ms, others may grow from 1.0 to 1.4 ms without meaning anything."""
    durations_s = [0.2 if number % 5 == 0 else 0.001 + 0.00001 * number for number in range(40)]
    assert [each.cause for each in found("time.sleep(0.2)", durations_s, every=5)][:1] == ["periodic-work"]


def test_a_line_that_calls_a_trainer_is_not_to_be_left_to_another_process(tmp_path: Path) -> None:
    path = (Frame("<module>", str(tmp_path / "mine.py"), 1),)
    phases = (Phase.BACKWARD, Phase.OPTIMIZER, Phase.OTHER)
    samples = [
        Sample(0.1 * number + 0.02 * at, 0.1 / 3, 1, Role.TRAINING, str(phase), path)
        for number in range(40)
        for at, phase in enumerate(phases, start=1)
    ]
    steps = made_steps(dict.fromkeys(phases, 100 / 3), 40)
    (each,) = other_work_findings(Measurement(steps, observations=Observations(samples)))
    assert each.words.startswith("The whole training is in this line")


def test_what_came_once_has_no_period(found: Found) -> None:
    (once,) = found("long_episode()", [STEP_S] * 10, every=40)
    assert once.words.startswith("This takes 50 ms once in 10 steps. ")


def test_a_line_is_said_once_whoever_calls_it(tmp_path: Path) -> None:
    """And a method of the model that is called by its name is no work besides the computing."""
    script = str(tmp_path / "mine.py")
    for name, expected in (("augment", ["own-work"]), ("forward", [])):
        stacks = [(Frame("main", script, caller), Frame(name, script, 9)) for caller in (1, 2)]
        samples = [
            Sample(0.2 * number - 0.1, 0.1, 1, Role.TRAINING, str(Phase.OTHER), stacks[number % 2])
            for number in range(1, 41)
        ]
        steps = made_steps({Phase.OTHER: 100, Phase.FORWARD: 100}, 40)
        both = other_work_findings(Measurement(steps, observations=Observations(samples)))
        assert [each.cause for each in both] == expected
        assert [each.share for each in both] == [pytest.approx(0.5)] * len(expected)


def seen(script: str, line: int, made: str, learned: bool = False) -> LineRuns:
    """What was seen of a line that makes something new in each step."""
    operand = Operand(made, "float32 [8, 8]", 256, 8, learned, 4711, same_run=(0, 0), same_step=(0, 4))
    runs = {"steps": 5, "runs": 5, "turns": 0, "draws": False, "with_gradients": True}
    return LineRuns(0.0, 1, 1, file=script, line=line, reads=(), writes=(operand,), trainer=1, **runs)


def test_a_line_of_the_forward_pass_that_no_weights_go_into(tmp_path: Path) -> None:
    """Whoever has written what it calls: torch's own Python counts as well."""
    script = str(tmp_path / "mine.py")
    Path(script).write_text("\n" * 7 + "near = torch.cdist(x, x)\ny = self.layer(near)\n")
    loop, masked, multiplied = Frame("main", script, 3), Frame("forward", script, 8), Frame("forward", script, 9)
    of_torch = Frame("cdist", "/env/lib/python3.11/site-packages/torch/functional.py", 1)
    samples = [
        Sample(0.1 * number - 0.05, 0.05, 1, Role.TRAINING, str(Phase.FORWARD), (loop, *lines))
        for number in range(1, 41)
        for lines in ((masked, of_torch), (multiplied,))
    ]
    steps = made_steps({Phase.FORWARD: 100}, 40)
    runs = [seen(script, 8, "near"), seen(script, 9, "y", learned=True)]
    (found,) = other_work_findings(Measurement(steps, observations=Observations(samples, line_runs=runs)))
    assert (found.cause, found.phase, found.line, found.share) == ("own-work", Phase.FORWARD, 8, pytest.approx(0.5))
    assert other_work_findings(Measurement(steps, observations=Observations(samples))) == [], "nothing is known of it"


def called_in_optimizer(script: str, line: int) -> Sample:
    """A sample of what an optimizer has called, as Lightning has it call a whole step."""
    calls = Frame("step", "/env/lib/python3.11/site-packages/torch/optim/optimizer.py", 1)
    stack = (Frame("<module>", script, 1), calls, Frame("training_step", script, line))
    return Sample(0.1, 0.1, 1, Role.TRAINING, str(Phase.OPTIMIZER), stack)


def test_the_scripts_own_lines_count_where_an_optimizer_calls_them(tmp_path: Path) -> None:
    script = str(tmp_path / "mine.py")
    Path(script).write_text("trainer.fit()\ndef training_step():\n    log(norms)\n")
    inside = called_in_optimizer(script, 3)
    outside = replace(inside, stack=(*inside.stack[:1], *inside.stack[1:2]))
    samples = [
        replace(each, time_s=0.2 * number + delay_s)
        for number in range(40)
        for each, delay_s in ((inside, 0.1), (outside, 0.2))
    ]
    steps = made_steps({Phase.OPTIMIZER: 200}, 40)
    (found,) = other_work_findings(Measurement(steps, observations=Observations(samples)))
    assert (found.cause, found.line, found.share) == ("own-work", 3, pytest.approx(0.5, rel=0.05))
    assert found.phase == Phase.OPTIMIZER, "what ending it can bring is limited by the phase that its time counts to"


def test_what_is_left_of_a_callers_time_is_no_finding(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("log()\ndef log():\n    draw()\n")
    caller, called = Frame("<module>", str(script), 1), Frame("log", str(script), 3)
    samples = [
        Sample(0.1 * number + at, weight_s, 1, Role.TRAINING, str(Phase.OTHER), path)
        for number in range(40)
        for at, weight_s, path in ((0.05, 0.08, (caller, called)), (0.1, 0.02, (caller,)))
    ]
    steps = made_steps({Phase.OTHER: 100}, 40)
    (found,) = other_work_findings(Measurement(steps, observations=Observations(samples)))
    assert (found.cause, found.line, found.share) == ("own-work", 3, pytest.approx(0.8))


def test_two_lines_of_a_loop_are_one_finding(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "for batch in loader:\n    for row in rows:\n        a(row)\n        b(row)\n    optimizer.step()\n"
    )
    lines = {3: Phase.OTHER, 4: Phase.OTHER, 5: Phase.OPTIMIZER}
    samples = [
        Sample(number + 0.1 * line, 0.1 * line, 1, Role.TRAINING, str(phase), (Frame("<module>", str(script), line),))
        for number in range(40)
        for line, phase in lines.items()
    ]
    steps = made_steps({Phase.OTHER: 700, Phase.OPTIMIZER: 500}, 40)
    (found,) = other_work_findings(Measurement(steps, observations=Observations(samples)))
    assert (found.line, list(found.beside)) == (4, [3])
    assert found.together == pytest.approx(0.7 / 1.2, rel=0.01)


def test_a_sample_taken_as_a_step_of_the_optimizer_ended_says_nothing_of_its_line(tmp_path: Path) -> None:
    """Two lines of a metric are one call, though one of them seems to have trained once."""
    script = tmp_path / "mine.py"
    script.write_text("optimizer.step()\nmetric()\ndef metric():\n    rank()\n    sort()\n")
    main, metric = "<module>", "metric"
    ways = {1: (main, Phase.OPTIMIZER), 4: (metric, Phase.OTHER), 5: (metric, Phase.OTHER)}
    samples = []
    for number in range(40):
        for at, (line, (function, phase)) in enumerate(ways.items()):
            called = [] if function == main else [Frame(metric, str(script), line)]
            stack = (Frame(main, str(script), 1 if function == main else 2), *called)
            samples.append(Sample(number + 0.3 * at + 0.3, 0.3, 1, Role.TRAINING, str(phase), stack))
    stray = Sample(39.95, 0.01, 1, Role.TRAINING, str(Phase.OPTIMIZER), samples[1].stack)
    steps = made_steps({Phase.OTHER: 600, Phase.OPTIMIZER: 400}, 40)
    (found,) = other_work_findings(Measurement(steps, observations=Observations([*samples, stray])))
    assert (found.line, found.together) == (2, pytest.approx(0.6, rel=0.02))


def test_growth_is_told_from_outliers_and_from_a_machine_that_becomes_busy() -> None:
    dice = np.random.default_rng(0)
    growing = np.linspace(0.02, 0.07, 58) * dice.uniform(0.95, 1.05, 58)
    assert _grows_on(growing)
    growing[[9, 25, 40]] *= 4
    assert _grows_on(growing), "three steps that took far longer"
    busy = [np.where(np.arange(58) < dice.integers(58), 0.02, 0.05) * dice.uniform(0.8, 1.2, 58) for _ in range(200)]
    assert sum(map(_grows_on, busy)) <= 6


def test_steps_that_grow_steeply_are_seen_through_the_noise_of_a_shared_machine(found: Found) -> None:
    """Such as a list that is summed up in each step, where a step of the same work varies by a third."""
    seen, at_once = 0, 0
    for seed in range(20):
        noise = np.random.default_rng(seed).lognormal(sigma=0.3, size=84)
        grown = list(noise * np.linspace(0.02, 0.1, 84))
        twice = list(noise * np.where(np.arange(84) < 84 * seed / 20, 0.02, 0.06))
        seen += found("total = sum(seen)", grown, only_line_grows=True)[0].cause == "growing-steps"
        at_once += found("total = sum(seen)", twice, only_line_grows=True)[0].cause == "growing-steps"
    assert seen >= 18
    assert at_once <= 1


def test_a_validation_is_said_beside_a_line_that_takes_more(tmp_path: Path) -> None:
    """Two lines of one validation are one finding: the condition around it decides both."""
    script = tmp_path / "mine.py"
    loop = "for step in steps:\n    draw()\n    if step % 10 == 0:\n        valid()\n        score()\n    update()\n"
    script.write_text(loop)
    lines = {2: (0.4, Phase.OTHER), 4: (0.2, Phase.VALIDATION), 5: (0.1, Phase.VALIDATION), 6: (0.3, Phase.OPTIMIZER)}
    samples = [
        Sample(number + 0.1 * line, weight_s, 1, Role.TRAINING, str(phase), (Frame("<module>", str(script), line),))
        for number in range(40)
        for line, (weight_s, phase) in lines.items()
    ]
    steps = made_steps({Phase.OTHER: 400, Phase.VALIDATION: 300, Phase.OPTIMIZER: 300}, 40)
    both = other_work_findings(Measurement(steps, observations=Observations(samples)))
    assert [(each.line, each.decided_in) for each in both] == [(2, None), (4, (str(script), 3))]


def shorter(durations_s: list[float], forwards: tuple[int, ...] = ()) -> list[str]:
    steps = made_steps({Phase.FORWARD: 10.0}, len(durations_s), durations_s=tuple(durations_s), forwards=forwards)
    return [str(each) for each in diagnose(Measurement(steps)).measurement.notes]


def test_steps_that_become_shorter_are_noted() -> None:
    dice = np.random.default_rng(0)
    noise = dice.lognormal(sigma=0.05, size=(200, 40))
    for warm_up in (np.linspace(0.03, 0.02, 40), 0.02 + 0.02 * np.exp(-np.arange(40) / 8)):
        (note,) = shorter(list(warm_up * noise[0]))
        assert re.match(
            r"Steps have become shorter meanwhile, from \d\d\.\d to [12]\d\.\d ms, as where caches warm", note
        )
    assert sum(bool(shorter(list(0.02 * each))) for each in noise) == 0
    some_longer = noise * np.where(dice.random(noise.shape) < 0.2, 3.0, 1.0)
    assert sum(bool(shorter(list(0.02 * each))) for each in some_longer) <= 6
    calls = tuple(range(50, 10, -1))
    assert shorter([0.01 * each for each in calls], calls) == [], "there is less to do"
    assert shorter([0.03, *[0.02] * 9]) == [], "too few to tell"


@pytest.mark.parametrize(("workers", "fetched", "lines"), [(2, False, [4]), (0, False, [4]), (0, True, [])])
def test_a_sampler_that_draws_is_a_line_that_the_training_waits_for(
    workers: int, fetched: bool, lines: list[int], tmp_path: Path
) -> None:
    """Without workers, items are made in the same thread, and their causes are those of the wait for data."""
    script, loader = str(tmp_path / "mine.py"), "/lib/site-packages/torch/utils/data/dataloader.py"
    Path(script).write_text(
        "for batch in loader:\n    optimizer.step()\ndef __iter__(self):\n    order.remove(index)\n"
    )
    fetch = Frame("fetch", "/lib/site-packages/torch/utils/data/_utils/fetch.py", 50)
    loop, draw = Frame("<module>", script, 1), (Frame("_next_index", loader, 7), Frame("draw", script, 4))
    stacks = [
        (Phase.DATA_WAIT, (loop, *[fetch] * fetched, *draw)),
        (Phase.DATA_WAIT, (loop, Frame("_get_data", loader, 8))),
        (Phase.OPTIMIZER, (Frame("<module>", script, 2),)),
    ]
    samples = [
        Sample(0.1 * number, 0.1, 1, Role.TRAINING, str(phase), stack)
        for number, (phase, stack) in enumerate(stacks * 40, start=1)
    ]
    iterated = LoaderIterated(0.0, 1, 1, loader=1, settings=LoaderSettings(workers), training=True, collate=("", ""))
    steps = made_steps({Phase.DATA_WAIT: 200.0, Phase.OPTIMIZER: 100.0}, 40)
    found = other_work_findings(Measurement(steps, observations=Observations(samples, iterated=[iterated])))
    assert [(each.line, each.phase, round(each.share, 2)) for each in found] == [
        (line, Phase.DATA_WAIT, 0.33) for line in lines
    ]
