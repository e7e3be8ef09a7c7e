"""Items are drawn from a script's dataset beside its training, which never knows."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from workshop.judge.inputs import drawn_items
from workshop.judge.ledger import Ledger
from workshop.probe import opened_files
from workshop.probe.event_file import EventFile
from workshop.probe.events import FileWritten
from workshop.probe.item_draws import LoadedBatch, draw_items
from workshop.probe.messages import DrawItems
from workshop.probe.noted_step import NotedInputs, NotedPass

ITEMS, BATCH = 10, 3


class Numbers(Dataset[tuple[torch.Tensor, int]]):
    """Slow, counted, noted, and with noise."""

    def __init__(self, events: EventFile) -> None:
        self.events, self.seen = events, 0

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.seen += 1
        time.sleep(0.05 if get_worker_info() is None else 100)
        self.events.write(FileWritten, path="somewhere")
        return torch.full((4,), 10.0 * index) + torch.rand(4), index


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(ITEMS)


def entered(inputs: torch.Tensor, targets: torch.Tensor) -> NotedPass:
    noted = {"t": 0.0, "shape": tuple(inputs.shape), "dtype": str(inputs.dtype).removeprefix("torch.")}
    return NotedPass(noted | {"device": "cpu", "autocast": False}, NotedInputs(inputs), targets)


def test_items_are_drawn_and_nothing_else_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", time.sleep)
    opened_files.watch_sleep()
    own = tmp_path / "own"
    own.mkdir()
    data = Numbers(EventFile(str(own)))
    loader = DataLoader(data, BATCH, shuffle=True)
    inputs, targets = next(iter(loader))
    known = LoadedBatch(loader, [inputs, targets], [entered(inputs.double(), targets)])
    before, states, begin = data.seen, (torch.get_rng_state(), random.getstate()), time.monotonic()

    done = draw_items(known, DrawItems(times=3), EventFile(str(tmp_path)))

    assert (done.count, done.error) == (3 * ITEMS, None)
    assert data.seen == before
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert time.monotonic() - begin < 100
    assert len([line for path in own.iterdir() for line in path.read_text().splitlines()]) == before
    found = drawn_items(Ledger.of(tmp_path))
    assert found
    items, numbers = found
    assert sorted(numbers.tolist()) == sorted([*range(ITEMS)] * 3)
    assert [int(row[0] // 10) for row in items.features] == list(items.targets)
    assert len({tuple(row) for row in items.features.tolist()}) == 3 * ITEMS


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (LoadedBatch(None, None, []), "no DataLoader was seen"),
        (LoadedBatch(DataLoader(Stream()), None, []), "its DataLoader has no items that could be asked for"),
        (LoadedBatch(DataLoader([1, 2]), None, []), "what is loaded is not what enters the model"),  # type: ignore[arg-type]
    ],
)
def test_why_nothing_is_drawn(known: LoadedBatch, why: str, tmp_path: Path) -> None:
    assert draw_items(known, DrawItems(), EventFile(str(tmp_path))).error == why


def test_what_the_loop_changes_is_not_what_is_loaded() -> None:
    inputs, targets = torch.rand(4, 3), torch.arange(4)
    loader = DataLoader([1, 2])  # type: ignore[arg-type]
    changed = [entered(inputs + 1, targets), entered(inputs, targets.flip(0))]
    assert LoadedBatch(loader, [inputs, targets], changed).places is None
    reshaped = entered(inputs.reshape(4, 3, 1), targets)
    assert LoadedBatch(loader, [inputs, targets], [reshaped, *changed]).places == (0, 1)


def test_targets_are_drawn_as_the_loss_gets_them() -> None:
    """Those of all words one after the other."""
    inputs, targets = torch.rand(4, 3), torch.arange(12).reshape(4, 3)
    loaded = LoadedBatch(DataLoader([1, 2]), [inputs, targets], [entered(inputs, targets.flatten())])  # type: ignore[arg-type]
    assert loaded.as_entered([inputs[:2], targets[:2]]).targets == tuple(range(6))


def test_rows_that_are_no_items_are_not_taken_for_them(tmp_path: Path) -> None:
    """As of graphs, of which each has several nodes."""

    def collate(numbers: list[int]) -> list[torch.Tensor]:
        return [torch.ones(2 * len(numbers), 3), torch.tensor(numbers).repeat_interleave(2)]

    loader = DataLoader([*range(4)], 2, collate_fn=collate)  # type: ignore[arg-type]
    inputs, targets = next(iter(loader))
    done = draw_items(
        LoadedBatch(loader, [inputs, targets], [entered(inputs, targets)]), DrawItems(), EventFile(str(tmp_path))
    )
    assert (done.count, done.error) == (0, "what enters the model is not divided into items")
