"""What another way of loading can bring, in constructed measurements; `benchmarks/diagnosis.py` tries real scripts."""

from dataclasses import replace
from typing import Any

import pytest
from made_measurements import made_steps

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.diagnosis import Diagnosis, diagnose
from workshop.diagnosis.findings import COST_MARGIN
from workshop.diagnosis.loading import Loading, cores, other_workers
from workshop.diagnosis.measurement import Measurement, NoteKind
from workshop.diagnosis.samples import Observations, Sample
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import Circumstances
from workshop.probe.observations import LineRuns, LoaderIterated, Operand, Role
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame
from workshop.runs.measured_steps import MeasuredSteps

LOADER = Frame("fetch", "/env/site-packages/torch/utils/data/_utils/fetch.py", 50)
ITEM, ITEM_TOO = (Frame("__getitem__", "/me/train.py", line) for line in (7, 8))


def steps(
    data_ms: float, computing_ms: float, batch_bytes: int = 0, scatters: tuple[float, ...] = (1.0, 1.0)
) -> MeasuredSteps:
    """Ten steps that wait for data and compute, in blocks, each of which takes this many times as long as they."""
    phases_ms = {Phase.DATA_WAIT: data_ms, Phase.FORWARD: computing_ms}
    blocks_ms = tuple({str(phase): scatter * ms for phase, ms in phases_ms.items()} for scatter in scatters)
    return made_steps(phases_ms, batches=10, batch_bytes=batch_bytes, blocks_ms=blocks_ms)


def measured(
    as_it_is: MeasuredSteps,
    headroom: MeasuredSteps | None,
    tried: dict[int, MeasuredSteps] | None = None,
    workers: int = 0,
    cores_used: float = 0.5,
) -> Measurement:
    """A script whose items are loaded by two of its lines all the time that it waits."""
    role, phase = (Role.WORKER, "") if workers else (Role.TRAINING, str(Phase.DATA_WAIT))
    waits_s = as_it_is.phases_s[Phase.DATA_WAIT] or as_it_is.wall_s
    collate = ("collate", "/me/train.py")
    settings = LoaderSettings(workers, persistent=True)
    loaded = LoaderIterated(0.0, 1, 1, loader=1, settings=settings, training=True, collate=collate)
    observations = Observations(
        [
            Sample(0.5 * as_it_is.ended_s, part * waits_s, 1, role, phase, (LOADER, item))
            for part, item in ((0.55, ITEM), (0.45, ITEM_TOO))
        ],
        iterated=[loaded],
        made={1: (Frame("<module>", "/me/train.py", 3),)},
        cpu={1: [(0.0, 0.0), (as_it_is.ended_s, cores_used * cores() * as_it_is.ended_s)]},
    )
    return Measurement(as_it_is, headroom=headroom, observations=observations, with_workers=tried or {})


def gains(found: Diagnosis) -> dict[str, float]:
    return {each.cause: each.gain for each in found.findings}


def test_no_gain_is_above_what_the_wait_and_the_headroom_allow() -> None:
    """A trial seemed to be three times faster, though the training waits for a twentieth of its time only."""
    found = diagnose(measured(steps(5, 95), steps(0, 94), {4: steps(1, 32.6)}))
    assert all(gain <= 100 / 94 for gain in gains(found).values())
    moderate = diagnose(measured(steps(10, 90), steps(0, 92), {4: steps(0, 84)}))
    (few,) = (each for each in moderate.findings if each.cause == "few-workers")
    assert few.gain == pytest.approx(100 / 92)
    assert few.ms_a_step == pytest.approx(8.0)
    assert not few.measured
    assert "loading cannot explain all of this difference" in few.words
    without_headroom = diagnose(measured(steps(20, 80), None))
    assert 1.1 < gains(without_headroom)["slow-item"] <= 1 + COST_MARGIN * 0.25


def test_workers_that_hinder_take_more_than_the_wait() -> None:
    """The computing of the training got shorter when they were fewer: that has been measured."""
    hinder = measured(steps(5, 95), steps(0, 48), {1: steps(2, 48)}, workers=4, cores_used=1.0)
    assert gains(diagnose(hinder))["worker-contention"] == pytest.approx(2.0, rel=0.05)
    assert diagnose(hinder).measurement.notes == ()


def test_no_workers_are_said_to_take_time_where_there_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a script with another cause whose gain is above the headroom, and of one with a lucky trial."""
    print_diagnosis("mine.py", diagnose(measured(steps(30, 70), steps(0, 80), {4: steps(0, 65)})))
    said = capsys.readouterr().out
    assert "few-workers" in said
    assert "present workers" not in said


@pytest.mark.parametrize(
    ("headroom", "tried", "says"),
    [
        (steps(0, 140), {}, "busier with batches from memory: computing took 2.3x longer than as it is; the headroom"),
        (
            steps(0, 20),
            {},
            "Computing took 3.0x longer in the unchanged script than with batches from memory: other",
        ),
        (
            steps(0, 58),
            {4: steps(0, 15)},
            "each wait; what that gains is unsure",
        ),
    ],
)
def test_a_busier_machine_is_said_and_gains_on_it_are_not(
    headroom: MeasuredSteps, tried: dict[int, MeasuredSteps], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = diagnose(measured(steps(40, 60), headroom, tried))
    [note] = found.measurement.notes
    assert note.kind is NoteKind.UNSURE_STAGE
    assert says in str(note)
    assert gains(found).keys() == {"slow-item"}
    assert gains(found)["slow-item"] <= 1 + COST_MARGIN * (100 / 60 - 1)
    print_diagnosis("mine.py", found)
    assert ("Headroom: " in capsys.readouterr().out) == bool(tried)


def test_a_dataset_that_each_worker_would_go_through_is_not_tried_with_several() -> None:
    """An iterable one that does not ask for its worker: with two of them, each item would come twice."""
    measurement = measured(steps(60, 40), steps(0, 40))
    (loaded,) = measurement.observations.iterated
    for changed, workers in (({}, [1]), ({"shares_out": True}, other_workers(Loading(measurement)))):
        iterated = [replace(loaded, iterable=True, **changed)]
        observations = replace(measurement.observations, iterated=iterated)
        assert other_workers(Loading(replace(measurement, observations=observations))) == workers


def test_what_the_advice_changes_is_said() -> None:
    """A dataset with a counter of epochs, and a DataLoader that is made anew."""
    measurement = measured(steps(90, 10), steps(0, 10), {2: steps(1, 10)}, workers=2)
    (loaded,) = measurement.observations.iterated
    settings, made = LoaderSettings(2), measurement.observations.made
    for numbers, states, said in (((1, 1), "ab", "between epochs"), ((1, 2), "aa", "in the sampler")):
        iterated = [
            replace(loaded, t=time_s, loader=number, dataset_state=state, settings=settings)
            for time_s, number, state in zip((0.1, 0.5), numbers, states, strict=True)
        ]
        observations = replace(measurement.observations, iterated=iterated, made={1: made[1], 2: made[1]})
        (found,) = diagnose(replace(measurement, observations=observations)).findings
        assert found.cause == "worker-restarts"
        assert [each for each in ("between epochs", "in the sampler") if each in found.words] == [said]


def test_nothing_is_to_gain_where_nothing_waits() -> None:
    """Lines of workers, where the wait has 1 % of a step, and computing seems to be faster without them."""
    hinder = measured(steps(1, 99), steps(0, 65), workers=2, cores_used=1.0)
    assert diagnose(hinder).findings == []


def test_what_makes_computing_longer_by_itself() -> None:
    """Larger batches; and a step that hardly computes."""
    both = steps(40, 60, batch_bytes=1000), steps(0, 140, batch_bytes=2400)
    assert diagnose(measured(*both)).measurement.notes == ()
    assert diagnose(measured(steps(98, 2), steps(0, 1))).measurement.notes == ()
    cuda = replace(measured(steps(40, 60), steps(0, 140)), circumstances=Circumstances("cuda"))
    assert diagnose(cuda).measurement.notes == ()


SPAWNING_S = (0.02, 0.9, *(0.02,) * 4, 0.9, *(0.02,) * 3)


def test_a_difference_that_cannot_explain_the_gain_is_no_reason_to_drop_it() -> None:
    """Spawned workers that are started anew: beside 185 ms, the 6 by which computing was faster are nothing.

    Nor is it chance that nearly all of the time went into the two steps in which they were started.
    """
    as_it_is = replace(steps(185.1, 7, scatters=(0.1, 0.1, 4.7, 0.1, 0.1, 0.1, 4.7, 0.1)), durations_s=SPAWNING_S)
    measurement = measured(as_it_is, steps(0, 1.3), {2: steps(6.2, 1.3), 0: steps(0.6, 1.3)}, workers=2)
    settings, (first,) = LoaderSettings(2), measurement.observations.iterated
    began = [replace(first, t=time_s, batches=5, settings=settings) for time_s in (0.1, 1.1)]
    (found,) = diagnose(replace(measurement, observations=replace(measurement.observations, iterated=began))).findings
    assert (found.cause, found.line) == ("worker-restarts", 3)
    assert found.gain == pytest.approx(192.1 / 7.5, rel=0.1)


def test_epochs_are_compared_with_epochs() -> None:
    """The pause of each epoch is spread over three of 24 steps: among the steps, it looks like noise."""
    epoch_s = (0.4, 0.7, 0.3, *(0.107,) * 21)
    durations_s = epoch_s[3:] + 4 * epoch_s
    step_ms = 1e3 * sum(durations_s) / len(durations_s)
    blocks = tuple(1e3 * sum(durations_s[at : at + 4]) / 4 / step_ms for at in range(0, len(durations_s) - 3, 4))
    phases_ms = {Phase.DATA_WAIT: step_ms - 100, Phase.FORWARD: 100.0}
    blocks_ms = tuple({str(Phase.FORWARD): scatter * step_ms} for scatter in blocks)
    as_it_is = made_steps(phases_ms, len(durations_s), batches=117, blocks_ms=blocks_ms, durations_s=durations_s)
    tried = {workers: steps(7, 100, scatters=(1.0, 1.01) * 10) for workers in (2, 4)}
    measurement = measured(as_it_is, steps(0, 100), tried, workers=2)
    (first,) = measurement.observations.iterated
    begins_s = [sum(durations_s[: 21 + 24 * number]) + 0.01 for number in range(4)]
    for count, causes in ((4, ["worker-restarts"]), (0, [])):
        began = [replace(first, t=time_s, settings=LoaderSettings(2)) for time_s in begins_s[:count]]
        observations = replace(measurement.observations, iterated=began or [first])
        found = diagnose(replace(measurement, observations=observations)).findings
        assert [each.cause for each in found if each.measured] == causes


def test_single_items_are_not_blamed_for_what_workers_cost() -> None:
    """Whole batches are taken without workers: if that alone helps as much, it is the workers."""
    for alone_ms, causes in ((1.0, ["worker-contention"]), (30.0, ["single-items"])):
        tried = {0: steps(alone_ms, 10, scatters=(1.0, 1.01) * 5)}
        measurement = measured(steps(90, 10), steps(0, 10), tried, workers=1)
        found = diagnose(replace(measurement, whole_batches=steps(1, 10, scatters=(1.0, 1.01) * 5))).findings
        assert [each.cause for each in found if each.measured][:1] == causes


def test_the_other_lines_of_the_function_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = diagnose(measured(steps(80, 20), steps(0, 20)))
    [line] = found.findings
    assert (line.line, line.share) == (7, pytest.approx(0.55 * 0.8))
    assert line.beside == {8: pytest.approx(0.45 * 0.8)}
    assert line.gain == pytest.approx(line.step_ms / line.fixed_step_ms)
    print_diagnosis("mine.py", found)
    shown = " ".join(capsys.readouterr().out.split())
    assert "44.0 ms a step, 44%. In the same function, line 8: 36%; together 80%." in shown
    assert f"a step of 100.0 ms would take {line.fixed} (estimated" in shown


PICTURE = Operand("image", "RGB picture 500 x 375", 562_500, 0, False, 1, same_run=(0, 31), same_step=(0, 96))


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ({}, "Nothing was drawn from the global random generators in this, 32 times a step, on `image` (RGB picture"),
        ({"draws": True}, "This draws random numbers, 32 times a step, on `image` "),
        ({"reads": (PICTURE, replace(PICTURE, name="dice", form="Generator", size=0))}, "This draws random numbers, "),
        ({"turns": 128 * 900, "reads": (replace(PICTURE, form="int", size=8),)}, "This runs 28800 times a step, each"),
        ({"writes": (replace(PICTURE, name="table", same_step=(90, 96)),)}, "In 90 of 96 runs this makes the same: "),
    ],
)
def test_what_an_item_s_line_was_seen_to_do_is_said(runs: dict[str, Any], words: str) -> None:
    """Items are made one by one: that a line runs for each of them is nothing to say."""
    usual = {"reads": (PICTURE,), "writes": (), "draws": False, "turns": 0}
    of_line = LineRuns(
        0.0, 2, 1, file="/me/train.py", line=7, steps=4, runs=128, with_gradients=True, trainer=1, **usual | runs
    )
    measurement = measured(steps(80, 20), steps(0, 20), workers=1)
    observations = replace(measurement.observations, line_runs=[of_line])
    (found,) = diagnose(replace(measurement, observations=observations)).findings
    assert (found.cause, found.line) == ("slow-item", 7)
    assert found.words.startswith(words)


@pytest.mark.parametrize("is_called", [False, True])
def test_what_is_called_for_each_item_of_a_batch_is_not_said_to_join_them(is_called: bool) -> None:
    collate = Frame("collate", "/me/train.py", 5)
    stack = (
        (LOADER, collate, Frame("augment", "/me/train.py", 7))
        if is_called
        else (LOADER, Frame("collate", "/me/train.py", 7))
    )
    line = {"file": "/me/train.py", "line": 7, "steps": 4, "runs": 128, "turns": 0, "draws": False, "trainer": 1}
    of_line = LineRuns(0.0, 2, 1, reads=(PICTURE,), writes=(), with_gradients=True, **line)  # type: ignore[arg-type]
    measurement = measured(steps(80, 20), steps(0, 20), workers=1)
    samples = [replace(each, stack=stack) for each in measurement.observations.samples]
    observations = replace(measurement.observations, samples=samples, line_runs=[of_line])
    (found,) = diagnose(replace(measurement, observations=observations)).findings
    assert found.cause == "slow-collate"
    assert found.words.startswith("This is called as the items" if is_called else "This joins the items")


@pytest.mark.parametrize(
    ("scatters", "causes"),
    [
        ((1.0, 1.0), {"slow-item", "few-workers"}),
        ((1.0,), {"slow-item"}),
        ((), {"slow-item"}),
        ((0.5, 1.5), {"slow-item"}),
    ],
)
def test_other_workers_are_said_to_help_only_if_their_steps_tell_it_from_noise(
    scatters: tuple[float, ...], causes: set[str]
) -> None:
    found = diagnose(measured(steps(60, 40), steps(0, 40), {4: steps(20, 40, scatters=scatters)}))
    assert gains(found).keys() == causes
