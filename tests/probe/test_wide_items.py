"""Which part of a batch is float64, and where the items are made."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from workshop.probe import wire
from workshop.probe.event_file import EventFile
from workshop.probe.memory.memory_notes import WideItems
from workshop.probe.memory.wide_items import WideBatches, way_to_wide


class Poses(Dataset[Any]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(3), {"heat": torch.zeros(3, dtype=torch.float64)}


def test_the_way_to_the_first_part_that_is_wide() -> None:
    wide = torch.zeros(3, dtype=torch.float64)
    assert way_to_wide(wide) == ()
    assert way_to_wide([torch.zeros(3), {"x": 3, "y": wide}]) == ("1", "y")
    assert way_to_wide([torch.zeros(3), torch.zeros(3, dtype=torch.long)]) is None


def test_it_is_noted_once_with_the_code_of_the_innermost_dataset(tmp_path: Path) -> None:
    wide, loader = WideBatches(EventFile(str(tmp_path))), DataLoader(Subset(Poses(), [1, 2]), 2)
    wide.on_loader_start(loader, 7)
    for number in (8, 7, 7):
        wide.on_batch(next(iter(loader)), number)
    [noted] = [wire.decode(line) for path in tmp_path.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert isinstance(noted, WideItems)
    assert noted.way == ("1", "heat")
    assert noted.frame == ("__getitem__", __file__, Poses.__getitem__.__code__.co_firstlineno)


class Config(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(TensorDataset(torch.zeros(8, dtype=torch.float64)), 2),
        DataLoader(Poses(), 2, collate_fn=lambda items: items[0][1]["heat"]),
    ],
)
def test_nothing_is_said_of_a_library_s_items_or_of_batches_that_are_made_otherwise(
    loader: DataLoader[Any], tmp_path: Path
) -> None:
    wide = WideBatches(EventFile(str(tmp_path)))
    wide.on_loader_start(loader, 7)
    wide.on_batch(next(iter(loader)), 7)
    assert not list(tmp_path.iterdir())
    assert way_to_wide(Config(x=torch.zeros(3, dtype=torch.float64))) is None, "it may do anything"
