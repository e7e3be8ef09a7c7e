"""What is looked at in a few steps: backward passes line by line, and what is tried on a copy of the model."""

import copy
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Run
from torch import nn

from workshop.diagnosis.samples import Observations, read_observations
from workshop.probe.backward_lines import BackwardLines
from workshop.probe.cause import FirstLook, Moment
from workshop.probe.event_file import EventFile
from workshop.probe.messages import Circumstances
from workshop.probe.observations import SettingMade, Trial
from workshop.probe.own_limits import usable_cores
from workshop.probe.phases import Phase
from workshop.probe.trials import tried_causes, watchers_for
from workshop.probe.trials.autograd_settings import set_to_none
from workshop.probe.trials.copies import ensure_room
from workshop.probe.trials.dense_embedding import DenseEmbedding
from workshop.probe.trials.other_threads import other_threads
from workshop.probe.trials.pageable_copy import PinnedCopy
from workshop.probe.trials.trial_race import MAX_ROUNDS, MIN_ROUNDS, ROUNDS, NothingToTryError, race
from workshop.probe.trials.watcher import ModelTrial


class TwoLines(nn.Module):
    """A line whose backward pass is long, and a loop of small ones."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(200, 200), nn.Linear(200, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        wide = self.wide(inputs)
        return sum(self.narrow(row) for row in wide)


WIDE = TwoLines.forward.__code__.co_firstlineno + 1


def passed(folder: Path, times: int = 1) -> Observations:
    """What is noted of some backward passes."""
    lines, model = BackwardLines(EventFile(str(folder))), TwoLines()
    for _ in range(times):
        lines.begin()
        loss = model(torch.ones(64, 200)).sum()
        lines.on_backward(loss)
        loss.backward()
        lines.after_backward()
    return read_observations(folder, [os.getpid()])


def test_a_backward_pass_is_divided_among_lines(tmp_path: Path) -> None:
    found = passed(tmp_path, times=2)
    assert len(found.backward_passes) == 2
    for each in found.backward_passes:
        of_lines = [(seconds, number, [line for *_, line in stack]) for seconds, number, stack in each.parts if stack]
        assert sum(seconds for seconds, _, lines in of_lines if WIDE in lines) > 0
        assert sum(number for _, number, _ in of_lines) >= each.operations - 5, "parameters have no line"
        assert each.operations > 64
    assert not torch.is_anomaly_enabled()


def test_a_pass_of_a_script_in_anomaly_mode_is_left_alone(tmp_path: Path) -> None:
    with torch.autograd.set_detect_anomaly(True):
        assert passed(tmp_path).backward_passes == []
        assert torch.is_anomaly_enabled()


class RowByRow(nn.Module):
    """What is random, what has a state, and a layer that is called for each row."""

    def __init__(self, as_batch: bool = True) -> None:
        super().__init__()
        self.as_batch = as_batch
        self.body, self.head = nn.Sequential(nn.Linear(32, 64), nn.Dropout(), nn.BatchNorm1d(64)), nn.Linear(64, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        rows = self.body(inputs)
        return torch.stack([self.head(row) for row in (rows.split(1) if self.as_batch else rows)])


DOUBLE = ("one-thread", "float64", "anomaly-mode")
ON_CPU = FirstLook(
    Circumstances("cpu", threads=1, double=True, anomaly_mode=True),
    settings=[SettingMade(0.0, 1, 1, "zero_grad", ("False",), ())],
    cores=2,
)
ON_CUDA = [each.name for each in tried_causes().values() if not each.is_worth_it(ON_CPU)]
OF_OPTIMIZER = [each.name for each in tried_causes().values() if each.phases == (Phase.OPTIMIZER,)]
OF_MODEL = [
    each.name
    for each in tried_causes().values()
    if each.moment not in (Moment.WATCHING, Moment.THROUGHOUT)
    and not {Phase.OPTIMIZER, Phase.COPY}.issuperset(each.phases or Phase)
]
MARKS = {"torch-compile": pytest.mark.acceptance} | dict.fromkeys(ON_CUDA, pytest.mark.cuda)


def raced(name: str, folder: Path, *call: Any) -> Trial:
    """What is noted of a trial, given the arguments of a call of a model, or an optimizer."""
    (trial,) = watchers_for([name], EventFile(str(folder)))
    trial.attempt(*call) if isinstance(trial, ModelTrial) else trial.before_optimizer(*call)
    return read_observations(folder, [os.getpid()]).trials[name]


TWO_OPTIMIZERS = """\
import os, sys, torch
from workshop.probe.event_file import EventFile
from workshop.probe.noted_settings import note_settings
from workshop.probe.trials import watchers_for
events = EventFile(sys.argv[1])
note_settings(events)
shown = torch.optim.Adam([torch.ones(4, requires_grad=True)])
trained = torch.optim.Adam([torch.ones(4, requires_grad=True)])
trained.param_groups[0]["params"][0].grad = torch.ones(4)
(trial,) = watchers_for(["fused-optimizer"], events)
trial.before_optimizer(trained)
print(os.getpid())
"""


def test_a_trial_of_an_optimizer_is_about_where_that_one_was_made(tmp_path: Path, run: Run) -> None:
    (script := tmp_path / "train.py").write_text(TWO_OPTIMIZERS)
    pid = int(run(script, tmp_path).stdout)
    trial = read_observations(tmp_path, [pid]).trials["fused-optimizer"]
    assert not trial.error
    assert [line for _, file, line in trial.stack if file == str(script)] == [8]


class Additive(nn.Module):
    """Small modules of the same shapes: each has an input of its own or, in a chain, the output of the one before."""

    def __init__(self, is_chain: bool = False) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1)) for _ in range(12))
        self.is_chain = is_chain

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.is_chain:
            return nn.Sequential(*self.parts)(inputs[:, :1])
        return torch.cat([part(inputs[:, i : i + 1]) for i, part in enumerate(self.parts)], dim=1)


class Pictures(nn.Sequential):
    """Convolutions, whose channels come first."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 1))


@pytest.mark.parametrize("name", [pytest.param(each, marks=MARKS.get(each, ())) for each in OF_MODEL])
def test_a_trial_changes_nothing(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = (RowByRow(), torch.randn(16, 32)) if name in DOUBLE else (Pictures(), torch.randn(16, 3, 8, 8))
    if name == "small-modules":
        model, inputs = Additive(), torch.randn(16, 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    if name in DOUBLE:
        model, inputs = model.double(), inputs.double()
    if name in ON_CUDA:
        model, inputs = model.cuda(), inputs.cuda()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random_state, threads = torch.get_rng_state(), torch.get_num_threads()
    trial = raced(name, tmp_path, model, (inputs,), {})
    assert trial.error == ""
    assert trial.as_it_is_s > 0
    assert trial.changed_s > 0
    assert trial.draws == (name in DOUBLE), "of those that call the whole model, which has a dropout"
    assert (trial.difference is None) == (name in DOUBLE)
    assert (trial.difference or 0.0) < (0.05 if name == "bfloat16" else 1e-4)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not optimizer.state
    assert torch.equal(torch.get_rng_state(), random_state)
    assert (torch.get_num_threads(), torch.is_anomaly_enabled()) == (threads, False)


@pytest.mark.slow
def test_a_compilation_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no code is made of what was traced, which takes half a minute."""
    lookup, asked = torch._dynamo.lookup_backend, list[str]()
    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda name: asked.append(name) or lookup("eager"))
    test_a_trial_changes_nothing("torch-compile", tmp_path)
    assert asked[-1] == "inductor"


class Unrolled(nn.Linear):
    """A loop that is traced for minutes, as each of its turns is an operation for a compiler."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs) + sum(inputs[row % 4].sum() * row for row in range(20_000))


@pytest.mark.slow
def test_a_compilation_that_takes_too_long_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.probe.trials.torch_compile.LONGEST_S", 3.0)
    assert raced("torch-compile", tmp_path, Unrolled(8, 2), (torch.randn(4, 8),), {}).error == "it took too long"
    again = torch.compile(nn.Linear(8, 2))
    assert again(torch.randn(4, 8)).shape == (4, 2), "the compiler works on"


@pytest.mark.parametrize(("pass_s", "rounds"), [(0.001, MAX_ROUNDS), (0.03, ROUNDS), (1.0, MIN_ROUNDS)])
def test_two_passes_take_turns_in_going_first(pass_s: float, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In few rounds if they take long, and in many if they are short; the first one does not count."""
    order, clock = list[str](), itertools.count(0.0, pass_s)
    monkeypatch.setattr("workshop.probe.trials.trial_race.MAX_DURATION_S", 4.0)
    monkeypatch.setattr("workshop.probe.trials.trial_race.monotonic", lambda: next(clock))
    raced = race(lambda: order.append("as it is"), lambda: order.append("changed"))
    there, back = ["as it is", "changed"], ["changed", "as it is"]
    assert order == [name for round_ in range(rounds) for name in (back if round_ % 2 else there)]
    assert len(raced.rounds) == rounds - 1
    assert raced.as_it_is_s == pytest.approx(pass_s)


@pytest.mark.parametrize("before", [1, 4])
def test_the_number_of_threads_is_searched_for_and_put_back(
    before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(6)), raising=False)
    used, threads = list[int](), torch.get_num_threads()

    class Counts(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            used.append(torch.get_num_threads())
            return super().forward(inputs)

    model = Counts(8, 8)
    torch.set_num_threads(before)
    try:
        trial = raced("other-threads", tmp_path, model, (torch.randn(4, 8),), {})
        assert torch.get_num_threads() == before
    finally:
        torch.set_num_threads(threads)
    assert trial.error == ""
    assert set(used) <= {1, 2, 4, 6}
    assert used[0] == before
    (best,) = set(used[-2:]) - {before}
    assert trial.setting == f"{best} thread{'s' * (best > 1)}"


def test_where_there_is_one_core_no_other_number_of_threads_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with pytest.raises(NothingToTryError, match="one core"):
            next(other_threads(nn.Linear(2, 2), (torch.ones(1, 2),), {}))
    finally:
        torch.set_num_threads(threads)
    assert usable_cores() >= 1


def test_gradients_that_are_cleared_by_zeros_are_added_to() -> None:
    """Both passes make the same gradients; only one of them drops them."""
    made: list[nn.Module] = []

    class Seen(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            made.append(self)
            return super().forward(inputs)

    zeroing, dropping = set_to_none(Seen(4, 2), (torch.ones(3, 4),), {})
    for _ in range(2):
        assert torch.equal(zeroing(), dropping())  # type: ignore[arg-type]
    zeroed, dropped = (next(each.parameters()).grad for each in made[:2])
    assert zeroed is not None
    assert not zeroed.any()
    assert dropped is None


@pytest.mark.cuda
@pytest.mark.parametrize("has_workers", [True, False])
def test_a_copy_from_pinned_memory(has_workers: bool, tmp_path: Path) -> None:
    tensor = torch.randn(1_000_000)
    PinnedCopy(EventFile(str(tmp_path))).on_pageable_copy(tensor, torch.device("cuda"), has_workers)
    trial = read_observations(tmp_path, [os.getpid()]).trials["pageable-copy"]
    assert (trial.error, trial.about, trial.difference) == ("", "4.0 MB", 0.0)
    assert not tensor.is_pinned()


def test_without_a_gpu_nothing_is_pinned(tmp_path: Path) -> None:
    PinnedCopy(EventFile(str(tmp_path))).on_pageable_copy(torch.ones(4), torch.device("cpu"), True)
    assert not read_observations(tmp_path, [os.getpid()]).trials["pageable-copy"].applies


@pytest.mark.parametrize("name", OF_OPTIMIZER)
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_a_trial_of_an_optimizer_changes_nothing(name: str, kind: type[torch.optim.Optimizer], tmp_path: Path) -> None:
    model = nn.Linear(8, 8)
    optimizer = kind([{"params": [each]} for each in model.parameters()], lr=0.1)
    for _ in range(2):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    before, state = copy.deepcopy(list(model.parameters())), copy.deepcopy(optimizer.state_dict())
    trial = raced(name, tmp_path, optimizer)
    assert (trial.error, trial.about) == ("", kind.__name__)
    assert trial.difference is not None
    assert trial.difference < 1e-6
    assert all(map(torch.equal, model.parameters(), before))
    assert str(optimizer.state_dict()) == str(state)


def test_groups_with_the_same_options_become_one(tmp_path: Path) -> None:
    parts = [nn.Linear(4, 4) for _ in range(6)]
    groups = [{"params": part.parameters(), "lr": 0.1 * (number % 2 + 1)} for number, part in enumerate(parts)]
    optimizer = torch.optim.AdamW([{**group, "name": str(n)} for n, group in enumerate(groups)])
    sum(part(torch.randn(3, 4)).sum() for part in parts).backward()
    trial = raced("merged-groups", tmp_path, optimizer)
    assert (trial.error, trial.setting, trial.difference) == ("", "2 instead of 6", 0.0)
    assert len(optimizer.param_groups) == 6
    optimizer = torch.optim.AdamW(groups[:2])
    parts[0](torch.randn(3, 4)).sum().backward()
    assert not raced("merged-groups", tmp_path, optimizer).applies, "they differ in the learning rate"


@pytest.mark.parametrize(
    ("kind", "options", "applies"),
    [
        (torch.optim.Adam, {}, True),
        (torch.optim.SGD, {}, True),
        (torch.optim.SGD, {"momentum": 0.9}, False),
        (torch.optim.RMSprop, {}, False),
    ],
)
@pytest.mark.parametrize("touched", [10, 900])
def test_embeddings_of_which_a_step_touches_few_rows(
    kind: type[torch.optim.Optimizer], options: dict[str, float], applies: bool, touched: int, tmp_path: Path
) -> None:
    table = nn.Embedding(1000, 16)
    optimizer = kind(table.parameters(), lr=0.1, **options)
    rows = torch.arange(touched)
    table(rows).sum().backward()
    before = table.weight.detach().clone()
    DenseEmbedding(EventFile(str(tmp_path))).attempt(optimizer, {table: [rows]})
    trial = read_observations(tmp_path, [os.getpid()]).trials["dense-embedding"]
    assert trial.applies == (applies and touched == 10)
    assert (trial.error == "") == trial.applies
    assert torch.equal(table.weight, before)


def test_what_there_is_no_memory_for_is_not_tried() -> None:
    huge = torch.empty(1).expand(10**15)
    with pytest.raises(MemoryError, match=r"copies would take 24000000\.0 GB, and .* are free"):
        ensure_room([huge], copies=6)
    ensure_room([torch.ones(8)], copies=6)


def test_a_model_that_cannot_be_copied_is_not_tried(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    model.lock = sys  # type: ignore[assignment]  # a module cannot be copied
    assert raced("float64", tmp_path, model, (torch.ones(1, 2),), {}).error.startswith("TypeError: ")


def test_modules_of_which_each_needs_the_one_before_are_not_called_at_once(tmp_path: Path) -> None:
    model = Additive(is_chain=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert "calls no 8 modules" in raced("small-modules", tmp_path, model, (torch.randn(64, 12),), {}).error
    assert not optimizer.state
