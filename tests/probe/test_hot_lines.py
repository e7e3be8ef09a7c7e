"""What lines are run with, and what they make, in real loops."""

import inspect
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors

from workshop.diagnosis.samples import read_observations
from workshop.diagnosis.watched_lines import watched_line
from workshop.probe.event_file import EventFile, why_lost
from workshop.probe.hooks import TrainingHooks
from workshop.probe.hot_lines import LOADED, MAX_RUNS, HotLines
from workshop.probe.line_operands import kept
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.measured_training import StageWatchers
from workshop.probe.messages import KeepBatches, WarmUp, WatchLoading
from workshop.probe.model_calls import ModelCalls
from workshop.probe.observations import LineRuns, Operand

STEPS = 4


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at all runs, however busy this machine is."""
    monkeypatch.setattr("workshop.probe.hot_lines.MAX_LOOK_S", 1e9)


class Stations(nn.Module):
    """Neighbours that never change, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.places = torch.randn(50, 3)
        self.asked = list[str]()

    @property
    def table(self) -> torch.Tensor:
        """What must not be asked for."""
        self.asked.append("table")
        return self.places

    def __getattr__(self, name: str) -> Any:
        if name == "made_up":
            self.asked.append(name)
            return self.places
        return super().__getattr__(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = torch.cdist(self.places, self.places)
        return self.layer(x) + near.sum()


def act(model: nn.Module, seen: torch.Tensor) -> torch.Tensor:
    chosen = []
    for i in range(len(seen)):
        chosen.append(model(seen[i]))
    return torch.stack(chosen)


def act_in_a_comprehension(model: nn.Module, seen: torch.Tensor) -> torch.Tensor:
    return torch.stack([model(row) for row in seen])


def batches() -> Iterator[torch.Tensor]:
    while True:
        batch = torch.randn(24, 8)
        yield batch


def line_with(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return next(first + number for number, line in enumerate(lines) if text in line)


def watched(folder: Path, step: Callable[[], object], *places: tuple[Any, str]) -> list[LineRuns]:
    """What is seen of the lines with these texts, in functions, in some steps."""
    lines = [watched_line(__file__, line_with(*place)) for place in places]
    watch = HotLines(EventFile(str(folder)), tuple(filter(None, lines)))
    try:
        for _ in range(STEPS):
            step()
            watch.on_step_end(1)
    finally:
        watch.end()
    assert sys.gettrace() is None
    assert why_lost(folder) == ""
    return read_observations(folder, [os.getpid()]).line_runs


def named(operands: tuple[Operand, ...]) -> dict[str, Operand]:
    return {each.name: each for each in operands}


def test_a_call_for_each_row_and_a_line_that_makes_the_same_again(tmp_path: Path) -> None:
    model = Stations()
    call, near = watched(
        tmp_path, lambda: act(model, torch.randn(24, 8)), (act, "append("), (Stations.forward, "cdist(")
    )
    assert (call.steps, call.runs, near.runs) == (STEPS, STEPS * 24, STEPS * 24)
    row, rows = (named(call.reads)[name] for name in ("seen[i]", "seen"))
    assert (row.form, row.size, rows.form, rows.length) == ("float32 [8]", 32, "float32 [24, 8]", 24)
    assert row.memory == rows.memory
    assert rows.same_run == (STEPS * 23, STEPS * 23), "of the same rows in a step"
    assert rows.same_step == (0, (STEPS - 1) * 24)
    assert row.same_run[0] == 0
    (made,) = near.writes
    assert (made.name, made.learned, made.same_step) == ("near", False, ((STEPS - 1) * 24,) * 2)
    assert near.with_gradients
    assert not near.draws


def test_the_turns_of_a_comprehension_are_counted(tmp_path: Path) -> None:
    model = Stations()
    (seen,) = watched(
        tmp_path, lambda: act_in_a_comprehension(model, torch.randn(24, 8)), (act_in_a_comprehension, "return")
    )
    assert (seen.runs, seen.turns) == (STEPS, STEPS * 24)
    (made,) = seen.writes
    assert (made.name, made.form, made.learned) == ("return", "float32 [24, 4]", True)


def many(values: list[float]) -> None:
    for value in values:
        value + 1.0


def test_of_many_runs_a_few_are_looked_at_and_all_are_counted(tmp_path: Path) -> None:
    (seen,) = watched(tmp_path, lambda: many([0.5] * 1000), (many, "value + 1"))
    assert seen.runs == STEPS * 1000
    (value,) = seen.reads
    assert value.same_run == (STEPS * (MAX_RUNS - 1),) * 2


class Batch(NamedTuple):
    state: torch.Tensor
    reward: torch.Tensor


def total_of(batch: Batch) -> torch.Tensor:
    return batch.state.sum() + batch.reward.sum()


class Thresholds:
    """Goes through the same two batches for each of five thresholds, and keeps all that it has ever counted."""

    def __init__(self) -> None:
        self.batches = [torch.randn(64), torch.randn(64)]
        self.counted = torch.zeros(0)

    def count(self) -> None:
        for threshold in range(5):
            for batch in self.batches:
                above = batch.sigmoid() * batch
                self.counted = torch.cat([self.counted, (above > threshold).float()])


def test_what_an_earlier_run_of_the_step_has_made_and_what_is_copied_to_grow(tmp_path: Path) -> None:
    above, grown = watched(tmp_path, Thresholds().count, (Thresholds.count, "above ="), (Thresholds.count, "cat("))
    assert named(above.writes)["above"].same_run == (STEPS * 8, STEPS * 9), "of 10 runs, the first two were new"
    assert named(grown.writes)["self.counted"].grown == (STEPS * 10, STEPS * 10 * 64 * 4)
    assert named(above.writes)["above"].grown == (0, 0)


class Decoder:
    """Decodes in eight turns, each of all that there is, for a few prompts that come again and again."""

    def __init__(self) -> None:
        self.prompts = torch.randn(3, 32)

    def decode(self) -> torch.Tensor:
        decoded = torch.randn(4, 1)
        for _ in range(8):
            total = decoded.sum(1, keepdim=True)
            decoded = torch.cat([decoded, total], 1)
        encoded = self.prompts[torch.arange(24) % 3] * 2.0
        return decoded.sum() + encoded.sum()


def test_what_is_longer_each_time_and_rows_that_come_again(tmp_path: Path) -> None:
    total, encoded = watched(tmp_path, Decoder().decode, (Decoder.decode, "total ="), (Decoder.decode, "encoded ="))
    assert named(total.reads)["decoded"].longer == (STEPS * 7, STEPS * 7)
    assert named(encoded.writes)["encoded"].different == (STEPS * 3, STEPS * 24)
    assert named(encoded.reads)["self.prompts"].different == (0, 0), "too few"
    one_hot = kept(torch.eye(16))
    assert one_hot
    assert one_hot.different == 16, "rows of the same sum"


def test_the_entries_of_a_named_tuple_are_known(tmp_path: Path) -> None:
    batch = Batch(torch.randn(5, 2), torch.randn(5))
    entries = kept(batch)
    assert entries
    assert (entries.form, entries.size) == ("Batch of 2", 60)
    (seen,) = watched(tmp_path, lambda: total_of(batch), (total_of, "return"))
    assert named(seen.reads)["batch.state"].form == "float32 [5, 2]"


def test_the_gradient_of_a_parameter_is_known(tmp_path: Path) -> None:
    model = nn.Linear(8, 4)
    model(torch.randn(2, 8)).sum().backward()

    def norm() -> float:
        return sum(value * value for value in model.weight.grad.flatten().tolist())  # type: ignore[union-attr]

    (seen,) = watched(tmp_path, norm, (norm, "return"))
    assert named(seen.reads)["model.weight.grad"].form == "float32 [4, 8]"
    assert seen.turns == STEPS * 32


def test_pictures_and_tables_have_a_size_and_texts_none() -> None:
    picture, table = kept(Image.new("RGB", (20, 10))), kept(pd.DataFrame({"a": range(5), "b": range(5)}))
    assert picture
    assert table
    assert (picture.form, picture.size, table.form, table.size) == ("RGB picture 20 x 10", 600, "DataFrame 5 x 2", 80)
    assert picture.value != picture.value
    of_torchvision = kept(tv_tensors.Image(torch.zeros(3, 4, 5, dtype=torch.uint8)))
    assert of_torchvision
    assert (of_torchvision.form, of_torchvision.size) == ("uint8 [3, 4, 5]", 60)
    texts = kept(["one", "other"])
    assert texts
    assert texts.size == 0


class Squares(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        table = torch.arange(40.0) ** 2
        return table[index]


def test_what_a_process_does_that_loads_in_the_place_of_workers(hooks: TrainingHooks, tmp_path: Path) -> None:
    loader = DataLoader(Squares(), batch_size=4, num_workers=1)
    kept_batches = iter(loader)
    hooks.begin_stage(KeepBatches())
    next(kept_batches)
    line = watched_line(__file__, line_with(Squares.__getitem__, "table ="))
    assert line
    stage = WatchLoading(LoaderSettings(), lines=(line,))
    hooks.begin_stage(stage)
    StageWatchers(EventFile(str(tmp_path)), hooks, ModelCalls(hooks), lambda: 0).on_stage(stage)
    for _ in range(LOADED + 2):
        next(kept_batches)
    hooks.begin_stage(WarmUp())
    seen = read_observations(tmp_path, [os.getpid()]).line_runs
    assert sys.gettrace() is None
    assert [(each.steps, each.runs) for each in seen] == [(number, 4 * number) for number in range(1, LOADED + 1)]
    assert {each.trainer for each in seen} == {os.getpid()} != {each.pid for each in seen}
    assert named(seen[-1].writes)["table"].same_step == (4 * (LOADED - 1),) * 2


def asks(model: Stations) -> torch.Tensor:
    return model.table + model.made_up + model.places


def test_no_code_of_the_script_runs_for_it(tmp_path: Path) -> None:
    model = Stations()
    (seen,) = watched(tmp_path, lambda: asks(model), (asks, "return"))
    assert model.asked == ["table", "made_up"] * STEPS, "only the script has asked"
    assert set(named(seen.reads)) == {"model.places"}


def draws() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.rand(100)


def test_what_is_drawn_is_told_even_if_it_is_the_same(tmp_path: Path) -> None:
    (seen,) = watched(tmp_path, draws, (draws, "return"))
    assert seen.draws
    assert seen.writes[0].same_step == (STEPS - 1, STEPS - 1)


def fails() -> None:
    raise KeyError("the script's own")


def test_what_the_script_raises_is_raised(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="the script's own"):
        watched(tmp_path, fails, (fails, "raise"))
    assert sys.gettrace() is None


def test_a_tracer_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    def other(frame: FrameType, event: str, about: Any) -> None:
        return None

    lines = watched_line(__file__, line_with(draws, "return"))
    assert lines
    sys.settrace(other)
    try:
        watch = HotLines(EventFile(str(tmp_path)), (lines,))
        draws()
        watch.end()
        assert sys.gettrace() is other
    finally:
        sys.settrace(None)
    assert read_observations(tmp_path, [os.getpid()]).line_runs == []


def test_a_fault_of_the_watch_does_not_reach_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("workshop.probe.hot_lines.names_of_states", broken)
    line = watched_line(__file__, line_with(draws, "return"))
    assert line
    watch = HotLines(EventFile(str(tmp_path)), (line,))
    assert draws().shape == (100,)
    watch.end()
    assert sys.gettrace() is None
    assert why_lost(tmp_path) == "RuntimeError: broken"


def test_no_variable_is_kept_alive(tmp_path: Path) -> None:
    """Neither of a function that goes on nor of a generator that waits, of which Python before 3.13 makes copies."""
    loader = batches()
    next(loader)

    def step() -> None:
        next(loader)
        waits = loader.gi_frame
        assert waits is not None

    watched(tmp_path, step, (batches, "batch ="))
    batch = loader.gi_frame.f_locals["batch"]
    del batch
    fresh = next(loader)
    assert sys.getrefcount(fresh) <= 3, "this variable, that of the generator, and the question"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.zeros(3), torch.ones(3)),
        (torch.zeros(3), torch.zeros(3, dtype=torch.float64)),
        (torch.zeros(2, 3), torch.zeros(3, 2)),
        (torch.zeros(100_000), torch.zeros(100_000).index_fill(0, torch.tensor([77]), 1.0)),
        (torch.zeros(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)),
        (np.zeros(3), np.ones(3)),
        (np.zeros(100_000), np.eye(1, 100_000, 77)[0]),
        ([1, 2], [1, 3]),
        ([torch.zeros(3)], [torch.ones(3)]),
        ({"a": torch.zeros(3)}, {"a": torch.ones(3)}),
        (deque([1]), deque([1, 1])),
        (1.0, 2.0),
        ("a", "b"),
        (torch.Generator(), torch.Generator().manual_seed(1)),
        (np.random.default_rng(0), np.random.default_rng(1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_equal_values_are_told_from_others(one: Any, other: Any) -> None:
    first, again, second = kept(one), kept(one), kept(other)
    assert first
    assert again
    assert second
    assert first.value == again.value
    assert first.value != second.value


@pytest.mark.parametrize("value", [torch.sparse_coo_tensor(size=(3, 3)), np.array([{}]), [object()], nn.Linear(2, 2)])
def test_what_cannot_be_looked_at_is_never_the_same(value: Any) -> None:
    one = kept(value)
    assert one
    assert one.value != one.value


def test_what_is_expanded_is_not_copied() -> None:
    huge = kept(torch.ones(1).expand(10**12))
    assert huge
    assert huge.value == huge.value
    assert kept(object()) is None
