"""Calls that are made again and again, in made-up samples; what was seen of them: probe/test_hot_lines.py."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made_measurements import made_steps

from workshop.diagnosis.causes import findings
from workshop.diagnosis.causes.other_work import other_work_findings
from workshop.diagnosis.findings import Finding
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations, Sample
from workshop.probe.observations import BackwardPass, LargestMade, LineRuns, Operand, OperatorWork, Role, Trial
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame

TRAINING = """
for step in range(1000):
    near = neighbours(stations)
    edges = near.topk(8)
    for i in range(24):
        chosen.append(policy(seen[i]))
    h = cell(x, h)
    loss.backward()
    optimizer.step()
    pairs = seen[:, None] - seen
    far = pairs.square().sum(-1)
    deep = self.encode(seen)
    for i in range(1000):
        total += i * 0.5
    alike = seen @ seen.t()
"""
NEAR, EDGES, CHOSEN, CELL, BACKWARD, STEP, PAIRS, FAR, DEEP, TOTAL, PRODUCT = 3, 4, 6, 7, 8, 9, 10, 11, 12, 14, 15
ENTRY = Operand("seen[i]", "float32 [8]", 32, 8, False, 4711, same_run=(0, 100), same_step=(0, 100))
ENTRIES = replace(ENTRY, name="seen", form="float32 [24, 8]", size=768, length=24, same_run=(100, 100))
AGAIN = Operand("near", "float32 [900, 900]", 3_240_000, 900, False, 4712, same_run=(0, 0), same_step=(4, 4))

Found = Callable[..., list[Finding]]


def seen(line: int, *, reads: tuple[Operand, ...] = (), writes: tuple[Operand, ...] = (), runs: int = 5) -> LineRuns:
    """What was seen of a line in five steps."""
    about = {"reads": reads, "writes": writes, "draws": False, "with_gradients": True, "turns": 0}
    return LineRuns(0.0, 1, 1, file="", line=line, steps=5, runs=runs, trainer=1, **about)


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """What is found of steps in which some lines take 100 ms each, of which something was seen."""

    def find(
        *runs: LineRuns,
        lines: tuple[int, ...],
        phase: Phase = Phase.FORWARD,
        trials: tuple[Trial, ...] = (),
        causes: Callable[[Measurement], list[Finding]] = other_work_findings,
        work: OperatorWork | None = None,
        inside: LargestMade | None = None,
    ) -> list[Finding]:
        script = str(tmp_path / "mine.py")
        Path(script).write_text(TRAINING)
        phases = dict.fromkeys(lines, phase) | {BACKWARD: Phase.BACKWARD, STEP: Phase.OPTIMIZER}
        samples = [
            Sample(
                0.1 * (number * len(phases) + at), 0.1, 1, Role.TRAINING, str(each), (Frame("<module>", script, line),)
            )
            for number in range(40)
            for at, (line, each) in enumerate(phases.items(), 1)
        ]
        parts = [(0.01, 1, (("<module>", script, line),)) for line in (lines[0], STEP)]
        backward = BackwardPass(0.0, 1, 1, step=3, operations=2, parts=(*parts, (0.5, 1, ())))
        of_lines = [replace(each, file=script) for each in runs]
        largest = [replace(inside, stack=(("<module>", script, lines[0]),))] if inside else []
        observations = Observations(
            samples,
            largest_made=largest,
            line_runs=of_lines,
            backward_passes=[backward],
            raced=list(trials),
            operators=work,
        )
        phases_ms = dict.fromkeys(phases.values(), 100.0) | {phase: 100.0 * len(lines)}
        return causes(Measurement(made_steps(phases_ms, 40), observations=observations))

    return find


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.OTHER, Phase.VALIDATION])
def test_a_line_that_makes_the_same_in_each_step_is_to_be_run_once(phase: Phase, found: Found) -> None:
    (each,) = found(seen(NEAR, writes=(AGAIN,)), lines=(NEAR,), phase=phase)
    assert (each.cause, each.line, each.phase, each.share) == ("same-again", NEAR, phase, pytest.approx(1 / 3))
    assert each.words == (
        "In each of 5 steps this makes the same: `near` (float32 [900, 900], 3.24 MB). Make it once, before the loop. "
        "Where that is changed in place, change a copy."
    )


@pytest.mark.parametrize(
    "other",
    [
        replace(AGAIN, same_step=(2, 4)),  # half of the times it was something else
        replace(AGAIN, same_step=(1, 1)),  # nobody knows
        replace(AGAIN, learned=True),
        replace(AGAIN, size=8),  # a number
        replace(AGAIN, form="str"),  # a file's name
    ],
)
def test_what_is_not_surely_the_same_is_not_said_to_be(other: Operand, found: Found) -> None:
    for each in (seen(NEAR, writes=(other,)), replace(seen(NEAR, writes=(AGAIN,)), draws=True)):
        assert "same-again" not in [one.cause for one in found(each, lines=(NEAR,), phase=Phase.OTHER)]


def test_a_line_that_makes_one_of_a_few_things_is_to_keep_them(found: Found) -> None:
    (each,) = found(seen(NEAR, writes=(replace(AGAIN, same_step=(3, 4)),)), lines=(NEAR,), phase=Phase.OTHER)
    assert each.words.startswith("In 3 of 4 runs this makes the same: ")
    assert "make each once, and keep it" in each.words


def test_two_lines_that_make_the_same_are_one_finding(found: Found) -> None:
    edges = replace(AGAIN, name="edges")
    (each,) = found(seen(NEAR, writes=(AGAIN,)), seen(EDGES, writes=(edges,)), lines=(NEAR, EDGES))
    assert (each.cause, each.line, each.beside) == ("same-again", NEAR, {EDGES: pytest.approx(0.25)})
    assert each.gain == pytest.approx(1.0 + 1.25 * (2.0 - 1.0))


def test_a_line_on_one_row_at_a_time_with_its_backward_pass(found: Found) -> None:
    (each,) = found(seen(CHOSEN, reads=(ENTRIES, ENTRY), runs=120), lines=(CHOSEN,))
    assert (each.cause, each.line) == ("tiny-operators", CHOSEN)
    assert each.share == pytest.approx(1 / 3 + 1 / 6), "half of the backward pass goes through it"
    assert each.words.startswith(
        "This runs 24 times a step, each time on 1 of 24 entries of `seen` (float32 [8], 32 B): "
    )
    (without,) = found(seen(CHOSEN, reads=(ENTRIES, ENTRY), runs=120), lines=(CHOSEN,), phase=Phase.VALIDATION)
    assert without.cause == "tiny-operators", "with or without gradients"


def test_a_line_on_one_number_at_a_time_is_for_operators(found: Found) -> None:
    number = replace(ENTRY, name="i", form="int", size=8, length=0)
    total = replace(number, name="total")
    (each,) = found(seen(TOTAL, reads=(number, total), runs=5000), lines=(TOTAL,), phase=Phase.VALIDATION)
    assert (each.cause, each.line) == ("own-work", TOTAL)
    assert each.words.startswith("This runs 1000 times a step, each time on single numbers, such as `i` (int, 8 B): ")
    unknown = found(seen(CHOSEN, reads=(number,), runs=5000), lines=(CHOSEN,), phase=Phase.VALIDATION)
    assert not any("single numbers" in each.words for each in unknown), "what is called there may do more"


@pytest.mark.parametrize(
    ("line", "reads", "runs"),
    [
        (CHOSEN, replace(ENTRY, size=1_000_000), 120),  # an operator has enough to do
        (CHOSEN, ENTRY, 40),  # as the layers of a model
        (CELL, replace(ENTRY, name="h"), 120),  # each needs the one before; and the loop is that of the training
    ],
)
def test_what_cannot_be_called_once_for_all(line: int, reads: Operand, runs: int, found: Found) -> None:
    assert found(seen(line, reads=(reads,), runs=runs), lines=(line,)) == []


def test_small_modules_are_said_with_what_was_tried(found: Found) -> None:
    rounds = ((0.2, 0.1), (0.21, 0.1), (0.2, 0.11), (0.2, 0.1))
    trial = Trial(0.0, 1, 1, name="small-modules", as_it_is_s=0.2, changed_s=0.1, usual_s=0.2, rounds=rounds)
    (each,) = found(seen(CHOSEN, reads=(ENTRIES, ENTRY), runs=120), lines=(CHOSEN,), trials=(trial,))
    assert (each.cause, each.line, each.measured) == ("tiny-operators", CHOSEN, True)
    assert "200.00 ms became 100.00" in each.words


def test_what_a_line_takes_a_part_of_is_said(found: Found) -> None:
    memory = replace(ENTRIES, name="near", form="list of 6000", size=6_000_000, memory=0)
    states = replace(AGAIN, name="edges", size=131_000, same_step=(0, 4))
    (each,) = found(seen(EDGES, reads=(memory,), writes=(states,)), lines=(EDGES,), phase=Phase.VALIDATION)
    assert each.cause == "periodic-work"
    assert " It makes 131 KB of 6 MB: where that is a part of it, take the part first." in each.words


def test_what_the_next_line_keeps_is_said(found: Found) -> None:
    new = replace(AGAIN, same_step=(0, 4))
    kept = replace(new, name="near[:8]", size=28_800)
    (each,) = found(seen(NEAR, writes=(new,)), seen(EDGES, reads=(kept,)), lines=(NEAR,), phase=Phase.VALIDATION)
    assert each.cause == "periodic-work"
    assert " It makes 3.24 MB (`near`), of which line 4 keeps 28.8 KB: " in each.words


def test_something_much_larger_than_what_goes_in_is_named_with_the_lines_that_read_it(found: Found) -> None:
    rows = replace(ENTRIES, name="seen[:, None]", form="float32 [24, 1, 800]", size=76_800)
    made = replace(AGAIN, name="pairs", form="float32 [24, 24, 800]", size=1_843_200, learned=True, memory=4713)
    least = replace(AGAIN, name="far", form="float32 [24, 24]", size=2304, learned=True)
    pairs = seen(PAIRS, reads=(rows, replace(rows, name="seen")), writes=(made,))
    (each,) = found(pairs, seen(FAR, reads=(made,), writes=(least,)), lines=(PAIRS, FAR))
    assert (each.cause, each.line, each.share) == ("large-intermediate", PAIRS, pytest.approx(1 / 4 + 1 / 8))
    assert each.beside == {FAR: pytest.approx(1 / 4)}
    assert each.words.startswith(
        "This makes `pairs` (float32 [24, 24, 800], 1.84 MB) of 76.8 KB, of which line 11 makes `far` (float32 [24, 24]"
    )
    deep = seen(DEEP, reads=(replace(rows, name="seen"),), writes=(replace(made, name="deep"),))
    assert found(deep, lines=(DEEP,)) == [], "what is called there may have weights"
    assert found(seen(PAIRS, writes=(made,)), lines=(PAIRS,)) == [], "nobody knows what goes in"
    product = seen(PRODUCT, reads=(replace(rows, name="seen"),), writes=(replace(made, name="alike"),))
    assert found(product, lines=(PRODUCT,)) == [], "a product is asked for what it makes"


def test_something_large_that_is_not_made_in_each_step_is_periodic_work(found: Found) -> None:
    rows = replace(ENTRIES, name="seen[:, None]", form="float32 [24, 1, 800]", size=76_800)
    made = replace(AGAIN, name="pairs", form="float32 [24, 24, 800]", size=1_843_200, same_step=(0, 4))
    pairs = seen(PAIRS, reads=(rows, replace(rows, name="seen")), writes=(made,))
    now_and_then = replace(pairs, steps=1, runs=1)
    (each,) = found(now_and_then, seen(FAR), lines=(PAIRS,), phase=Phase.VALIDATION)
    assert each.cause == "periodic-work"


def test_something_large_that_an_operator_makes_inside_is_named(found: Found) -> None:
    rows = replace(ENTRIES, name="pairs", form="float32 [24, 800]", size=76_800)
    least = replace(AGAIN, name="far", form="float32 [24, 24]", size=2304, learned=True)
    far = seen(FAR, reads=(rows,), writes=(least,))
    (each,) = found(far, lines=(FAR,), inside=LargestMade(0.0, 1, 1, (), "float32 [24, 24, 800]", 1_843_200))
    assert (each.cause, each.line) == ("large-intermediate", FAR)
    assert each.words.startswith("This makes in between, float32 [24, 24, 800] (1.84 MB) of 76.8 KB: where another")
    assert found(far, lines=(FAR,)) == []


def test_what_is_given_more_in_each_run_is_to_go_on_from_a_state(found: Found) -> None:
    more = replace(ENTRY, name="x", form="float32 [64, 24, 1]", size=6144, longer=(99, 100))
    (each,) = found(seen(CHOSEN, reads=(more,), runs=120), lines=(CHOSEN,))
    assert (each.cause, each.line) == ("growing-input", CHOSEN)
    assert each.words.startswith("This runs 24 times a step, each time on more: `x` (float32 [64, 24, 1], 6.14 KB) at")
    of_half = 1.0 - (1 / 3 + 1 / 6) * (1.0 - 2.0 / 25.0)
    assert each.gain == pytest.approx(1.0 + 1.25 * (1.0 / of_half - 1.0)), "of 1 + ... + 24 rows, 24 are new"


def test_rows_that_are_made_several_times_are_to_be_made_once(found: Found) -> None:
    rows = replace(AGAIN, name="return", form="float32 [36, 192]", length=36, same_step=(0, 4), different=(45, 180))
    (each,) = found(seen(NEAR, writes=(rows,)), lines=(NEAR,))
    assert (each.cause, each.line) == ("same-again", NEAR)
    assert each.words.startswith("Of 36 rows that this makes, about 9 differ: what it returns (float32 [36, 192], ")
    assert each.gain == pytest.approx(1.0 + 1.25 * (1.0 / (1.0 - 0.75 / 3) - 1.0))
    learned = replace(rows, learned=True)
    assert found(seen(NEAR, writes=(learned,)), lines=(NEAR,)) == [], "its weights are trained"


def test_a_call_for_each_row_gains_no_more_than_calls_cost(found: Found) -> None:
    """Of 300 ms, operators compute for 270: what is left is what calls and Python take."""
    work = OperatorWork(0.0, 1, 1, seconds=0.27, step_s=0.3, calls=5400)
    of_rows = seen(CHOSEN, reads=(ENTRY, ENTRIES), runs=120)
    (free,) = found(of_rows, lines=(CHOSEN,), causes=findings)
    (limited,) = found(of_rows, lines=(CHOSEN,), causes=findings, work=work)
    assert (free.cause, limited.cause) == ("tiny-operators", "tiny-operators")
    assert free.gain > limited.gain == pytest.approx(300 / 270)
