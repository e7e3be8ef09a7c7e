"""The loop of a real script takes a step of another run of it, and comes to the same to the last bit."""

import gc
import runpy
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

import pytest
import torch
from torch import distributed
from training_loops import (
    ACCUMULATED,
    APART,
    ASKED,
    AVERAGED,
    BEGIN,
    CLIPPED,
    COUNTED,
    COUNTED_ON,
    CRITIC_FIRST,
    CRITIC_OFTEN,
    DRAWN_IN_THE_LOOP,
    FUSED,
    GRAPHS,
    JITTERED,
    JOINED,
    LEFT_OVER,
    LOADED,
    LOADS_AHEAD,
    NODES_AT_ONCE,
    NODES_ONE_BY_ONE,
    PADDED,
    SCALED,
    SHARDED,
    SPARSE,
    SUMMED,
    TAUGHT,
    TURNED,
    TWO_LOADERS,
    WITHOUT_LOADER,
)

from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger
from workshop.judge.optimizer_proof import OptimizerReason
from workshop.judge.reasons import ReasonKind
from workshop.judge.step_proof import SampledSteps, StepReason, alike, differs, take_at_same_number
from workshop.judge.work_proof import WorkReason, check_progress, differences
from workshop.probe import recorded_step
from workshop.probe.connection import ClosedError, Connection
from workshop.probe.event_file import EventFile
from workshop.probe.evidence import EvidenceRecorder
from workshop.probe.messages import Proceed, Recomputation
from workshop.probe.settings import JudgedRun, ProbeConfig
from workshop.runs.script import run_folder

FOREIGN = Path(__file__).parents[1] / "foreign"

PATIENCE_S = 60.0


class InThisProcess(JudgedScript):
    """A script that runs in a thread of this process, where torch is loaded already: one at a time, never paused."""

    def begin(self, sample_step: int | None = None, steps: int | None = None) -> None:
        self.stop()
        torch.manual_seed(0)  # in a process of its own, a script begins with the same random numbers each time, too
        ours, theirs = socket.socketpair()
        self.judge = Connection(ours)
        config = ProbeConfig(str(self.folder), "", self.runs, JudgedRun(None, steps or self.epoch_steps, sample_step))
        self.recorder = EvidenceRecorder(config, Connection(theirs, _end_thread), EventFile(str(self.folder)))
        self.recorder.hooks.install()
        self.process: Any = Thread(target=self._run)
        self.process.start()
        self.runs += 1
        self.epochs_in_run = self.steps_in_run = 0

    def _run(self) -> None:
        with suppress(SystemExit):
            runpy.run_path(self.command[0])

    def send(self, message: object) -> None:
        self.judge.send(message)

    def receive(self) -> Any:
        while (message := self.judge.receive(1.0)) is None:
            assert self.process.is_alive()
        return message

    def signal(self, number: int) -> None:
        pass

    def pause_workers(self) -> None:
        pass

    def stop(self) -> None:
        if self.process is None:
            return
        self.judge.close()
        self.process.join(PATIENCE_S)
        assert not self.process.is_alive()
        self.process = None
        self.recorder.hooks.remove()
        self.recorder.epoch.steps = []  # or it would report them as this process ends
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _end_thread(_: ClosedError) -> NoReturn:
    raise SystemExit


@pytest.fixture(autouse=True)
def as_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests may have compiled something in this one, and have left much that is looked through for optimizers."""
    monkeypatch.setattr(recorded_step, "has_compiled", lambda: False)
    gc.freeze()
    yield
    gc.unfreeze()


def run(text: str, folder: Path, name: str, epoch_steps: int | None = None) -> InThisProcess:
    """Return a run of a script, with a folder of its own."""
    script = folder / f"{name}.py"
    script.write_text(BEGIN + text)
    return InThisProcess([str(script)], new(folder / name), epoch_steps=epoch_steps)


def new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def is_the_same(found: Recomputation) -> bool:
    """Whether a step was taken, and came to the same."""
    return (found.error, found.doubt) == (None, "") and not differs(found)


LOOPS = {
    "critic-often": CRITIC_OFTEN,
    "two-loaders": TWO_LOADERS,
    "accumulated": ACCUMULATED,
    "sparse": SPARSE,
    "graphs": GRAPHS,
    "asked": ASKED,
    "nodes": NODES_ONE_BY_ONE,
    "sharded": SHARDED,
    "critic-first": CRITIC_FIRST,
    "without-loader": WITHOUT_LOADER,
    "padded": PADDED,
    "taught": TAUGHT,
    "several-models": (FOREIGN / "several_models.py").read_text(),
}


def assert_takes_steps_of(other: JudgedScript, one: JudgedScript) -> None:
    with other:
        other.epoch()
        steps = other.epoch_steps or 0
        samples = [other.epoch(Proceed(step)).sample for step in (1, steps - 1)]
    with one:
        one.epoch()
        for sample in samples:
            assert sample
            found = one.recompute(sample)
            assert found.error is None
            assert found.loss == pytest.approx(found.recorded_loss)
            assert (found.gradient_error, found.step_error, found.state_error, found.buffer_error) == (0, 0, 0, 0)
            one.epoch()
        assert len(Ledger.of(one.folder).optimizer_steps) == 3 * steps, "the steps of the other run are not its own"


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_a_loop_takes_a_step_of_another_run(text: str, tmp_path: Path) -> None:
    steps = None if "DataLoader" in text else 12
    assert_takes_steps_of(*(run(text, tmp_path, each, epoch_steps=steps) for each in ("other", "one")))


@pytest.mark.parametrize(
    ("name", "epoch_steps"),
    [
        pytest.param("iterable", 8, marks=pytest.mark.slow),
        pytest.param("accumulation", None, marks=pytest.mark.acceptance),
    ],
)
def test_a_loop_with_workers_takes_a_step_of_another_process(name: str, epoch_steps: int | None) -> None:
    command = [str(FOREIGN / f"{name}.py")]
    with run_folder() as other, run_folder() as one:  # of short names, as the sockets of workers are in them
        assert_takes_steps_of(*(JudgedScript(command, folder, epoch_steps=epoch_steps) for folder in (other, one)))


def retaken(new: str, old: str, folder: Path) -> tuple[Recomputation, Ledger, Ledger]:
    """What comes of a step of one script in the loop of another, and what both have noted."""
    with run(new, folder, "new") as new_run:
        new_run.epoch()
        sample = new_run.epoch(Proceed(3)).sample
    assert sample
    with run(old, folder, "old") as old_run:
        old_run.epoch()
        found = old_run.recompute(sample)
        return found, Ledger.of(new_run.folder), Ledger.of(old_run.folder)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (JOINED, APART),
        (APART, JOINED),
        (JOINED.replace("q, k, v = ", "v, q, k = "), APART),
        (TURNED, APART),
        (TURNED.replace("AdamW", "SGD"), JOINED.replace("AdamW", "SGD")),
    ],
    ids=["joined", "apart", "in-another-order", "turned-and-joined", "turned"],
)
def test_a_model_with_its_parameters_in_other_shapes_comes_to_the_same(new: str, old: str, tmp_path: Path) -> None:
    found, candidate, original = retaken(new, old, tmp_path)
    assert is_the_same(found), found
    assert found.is_mapped
    assert max(found.gradient_errors) < 20
    candidate.recomputed = [found]
    assert differences(original, candidate) == []


def retaken_scaled(new: str, old: str, folder: Path) -> tuple[Ledger, Ledger]:
    """What two scripts with a scaler have noted, and what comes of steps of the one in the other's loop."""
    with run(new.replace("SEED", "2"), folder, "new") as new_run:
        new_run.epoch()
        new_run.alike = alike(Ledger.of(new_run.folder).steps)
        samples = [new_run.epoch(Proceed(step)).sample for step in new_run.alike or range(2, 8)]
    candidate = Ledger.of(new_run.folder)
    with run(old.replace("SEED", "3"), folder, "old") as old_run:
        old_run.epoch()
        for sample in samples:
            old_run.epoch()
            assert sample
            candidate.recomputed.append(old_run.recompute(sample))
        return Ledger.of(old_run.folder), candidate


@pytest.mark.parametrize(
    ("new", "old"),
    [(SCALED, SCALED), (CLIPPED, CLIPPED), (FUSED, SCALED), (SCALED, FUSED)],
    ids=["plain", "clipped", "now-fused", "once-fused"],
)
def test_a_step_that_a_scaler_leaves_out_is_a_step(new: str, old: str, tmp_path: Path) -> None:
    original, candidate = retaken_scaled(new, old, tmp_path)
    assert len(candidate.steps) == 16 * (1 + len(candidate.recomputed))
    for ledger, text in (original, old), (candidate, new):
        skipped = [step.is_skipped for step in ledger.steps]
        idle = [len(step.still) == 4 for step in ledger.steps]
        assert 0.1 < sum(idle) / len(idle) < 0.5
        assert skipped == ([False] * len(idle) if text is FUSED else idle), "a fused optimizer leaves it out itself"
    assert not any(map(differs, candidate.recomputed))
    assert differences(original, candidate) == []


@pytest.mark.parametrize(
    ("text", "steps"), [(SUMMED, 3), (LEFT_OVER, 6), (COUNTED_ON, 8)], ids=["at-the-end", "left-over", "counted-on"]
)
def test_a_loop_whose_steps_take_three_of_eight_batches(text: str, steps: int, tmp_path: Path) -> None:
    original, candidate = retaken_scaled(text, text, tmp_path)
    assert len(candidate.steps) == steps * (1 + len(candidate.recomputed))
    assert {True, False} == {step.is_skipped for step in candidate.steps}
    assert all(map(is_the_same, candidate.recomputed)), candidate.recomputed
    assert differences(original, candidate) == []


@pytest.mark.parametrize(("new", "old"), [(LOADS_AHEAD, SUMMED), (SUMMED, LOADS_AHEAD), (LOADS_AHEAD, LOADS_AHEAD)])
def test_a_loop_that_loads_ahead_goes_on_as_before(new: str, old: str, tmp_path: Path) -> None:
    """The batch that it trains on came in the step before, and it counts those of an epoch."""
    with run(new.replace("SEED", "2"), tmp_path, "new") as new_run:
        new_run.epoch()
        new_run.alike = alike(Ledger.of(new_run.folder).steps)
        samples = [new_run.epoch(Proceed(1)).sample for _ in range(2)]
    with run(old.replace("SEED", "3"), tmp_path, "old") as old_run:
        old_run.epoch()
        for sample in samples:
            old_run.epoch()
            assert sample
            assert is_the_same(old_run.recompute(Path(sample)))
        old_run.epoch()
    assert [len(step.forwards) for step in Ledger.of(old_run.folder).steps] == [3, 3, 2] * 4


def test_a_scale_that_grows_sooner_is_another_setting(tmp_path: Path) -> None:
    both = retaken_scaled(SUMMED.replace("growth_interval=3", "growth_interval=1"), SUMMED, tmp_path)
    assert [each.kind for each in differences(*both)] == [OptimizerReason.OTHER_SETTING]


def test_the_scale_is_the_scripts_own_after_steps_of_another(tmp_path: Path) -> None:
    """Each step that is left out halves it, those of others included."""
    text = SCALED.replace("SEED", "2").replace("overflows.any()", "True").replace("growth_interval=3", "init_scale=2e9")
    with run(text, tmp_path, "new") as new_run:
        new_run.epoch()
        sample = new_run.epoch(Proceed(2)).sample
    assert sample
    with run(text, tmp_path, "old") as old_run:
        old_run.epoch()
        for _ in range(5):
            assert is_the_same(old_run.recompute(sample))
        old_run.epoch()
        [scale] = old_run.recorder.hooks.scalers.states()
    assert scale["scale"] == 2e9 / 2**31, "the last step has not been followed by an update yet"


def test_who_leaves_out_more_steps_than_the_original_would_is_refused(tmp_path: Path) -> None:
    cheat = SCALED.replace("overflows.any()", "torch.rand(()) < 0.6")
    original, candidate = retaken_scaled(cheat, SCALED, tmp_path)
    assert [each.kind for each in check_progress(original, candidate)] == [WorkReason.PARAMETERS_STILL]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("y).backward", "y).mul(1.1).backward"), StepReason.IN_DOUBT),
        (("AdamW(net.parameters()", "Adafactor(net.parameters()"), StepReason.NOT_TAKEN),
        (("nn.Linear(6, 8)", "nn.Linear(6, 8, bias=False)"), WorkReason.OTHER_MODEL),
    ],
)
def test_where_such_a_model_comes_to_something_else_that_is_no_proof(
    change: tuple[str, str], said: ReasonKind, tmp_path: Path
) -> None:
    old = APART if "Adafactor" not in change[1] else APART.replace(*change)
    found, candidate, original = retaken(JOINED.replace(*change), old, tmp_path)
    candidate.recomputed = [found]
    assert [each.kind for each in differences(original, candidate)] == [said]


def test_a_loop_whose_next_batch_is_smaller_takes_a_step_with_a_larger_one(tmp_path: Path) -> None:
    """The targets are handed over with the inputs, or neither are: the loop must not break."""
    text = (JITTERED + DRAWN_IN_THE_LOOP).replace("range(40)", "range(41)").replace("(40", "(41")
    with run(text, tmp_path, "other", epoch_steps=5) as other:
        other.epoch()
        sample = other.epoch(Proceed(2)).sample
    assert sample
    with run(text, tmp_path, "one", epoch_steps=10) as one:
        one.epoch()
        found = one.recompute(sample)
    assert found.error is None
    assert found.doubt or not differs(found)


def test_a_step_is_taken_after_the_very_first_one(tmp_path: Path) -> None:
    """What the critic's first step has left is still to be used by the generator's, which was not seen yet."""
    with run(CRITIC_FIRST, tmp_path, "other", epoch_steps=5) as other:
        other.epoch()
        sample = other.epoch(Proceed(2)).sample
    assert sample
    with run(CRITIC_FIRST, tmp_path, "one", epoch_steps=1) as one:
        one.epoch()
        assert is_the_same(one.recompute(sample))


def test_what_another_script_draws_before_it_calls_the_model_changes_nothing(tmp_path: Path) -> None:
    """It draws in its loop what the original draws while it loads; the dropout is the same."""
    with run(JITTERED + DRAWN_IN_THE_LOOP, tmp_path, "new", epoch_steps=10) as new_run:
        new_run.epoch()
        sample = new_run.epoch(Proceed(3)).sample
    assert sample
    with run(JITTERED + LOADED, tmp_path, "old") as old_run:
        old_run.epoch()
        found = old_run.recompute(sample)
    assert (found.error, found.doubt) == (None, "")
    assert found.loss == pytest.approx(found.recorded_loss)
    assert max(found.gradient_errors) < 20


def test_neighbours_may_be_drawn_at_once(tmp_path: Path) -> None:
    found, candidate, original = retaken(NODES_AT_ONCE, NODES_ONE_BY_ONE, tmp_path)
    assert is_the_same(found), found
    candidate.recomputed = [found]
    assert differences(original, candidate) == []


@pytest.mark.parametrize(("text", "copied"), [(TAUGHT, 0), (AVERAGED, 4)], ids=["taught", "averaged"])
@pytest.mark.parametrize("follows", [0.1, 0.01])
def test_what_is_done_after_the_optimizers_step_belongs_to_it(
    text: str, copied: int, follows: float, tmp_path: Path
) -> None:
    with run(text.replace("fast, 0.1", f"fast, {follows}"), tmp_path, "other", epoch_steps=10) as other:
        other.epoch()
        sample = other.epoch(Proceed(3)).sample
    assert sample
    with run(text, tmp_path, "one", epoch_steps=10) as one:
        for _ in range(2):
            one.epoch()
        found = one.recompute(sample)
    assert (found.error, found.doubt, found.copied) == (None, "", copied)
    assert is_the_same(found) is (follows == 0.1)


def test_a_loop_that_counts_takes_a_step_as_its_own_of_the_same_number(tmp_path: Path) -> None:
    text, samples = JITTERED + COUNTED, SampledSteps()
    with run(text, tmp_path, "other", epoch_steps=10) as other:
        for _ in range(3):
            other.epoch()
        recorded = other.epoch(Proceed(5))
        assert recorded.sample
        assert recorded.report.sampled_step in range(5, 10)
        number = recorded.first_step + recorded.report.sampled_step
        for step in 7, 8:
            samples.add([other.epoch(Proceed(step))])
    with run(text, tmp_path, "one", epoch_steps=10) as one:
        one.epoch()
        assert differs(one.recompute(recorded.sample)), "as another step of its own"
        one.epoch(Proceed(steps=number - one.steps_in_run))
        found = one.recompute(recorded.sample)
        assert is_the_same(found)
        assert found.loss == pytest.approx(found.recorded_loss)
        samples.take(one)  # each is taken more than once, which counts, too
        assert samples.unsettled == samples.steps
    with run(text, tmp_path, "third") as third:
        take_at_same_number(third, [samples], lambda steps: True)
    assert all(map(is_the_same, samples.results))
