"""By which indexes each batch was asked for, and what the same indexes and seed give."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from workshop.judge.draw_proof import DrawReason, check_states
from workshop.judge.ledger import Ledger, events_in
from workshop.probe.event_file import EventFile
from workshop.probe.hooks import TrainingHooks
from workshop.probe.item_addresses import Address, Addresses, SeededIndexes
from workshop.probe.listener import Listener


class Drawn(Dataset[torch.Tensor]):
    """Its items are drawn by three generators."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, float(torch.rand(())), random.random(), np.random.random()])


class Heard(Listener):
    """Notes the address of each batch, and the batch."""

    def __init__(self, share_seeded: float, folder: Path) -> None:
        self.hooks = TrainingHooks(self, addresses=Addresses(EventFile(str(folder)), lambda: share_seeded))
        self.batches: list[tuple[Address | None, Any]] = []

    def on_batch(self, batch: Any) -> None:
        self.batches.append((self.hooks.loading.address, batch))


@pytest.fixture
def heard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Heard]:
    heard = Heard(getattr(request, "param", 0.0), tmp_path)
    heard.hooks.install()
    yield heard
    heard.hooks.remove()


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}])
def test_each_batch_has_the_indexes_it_was_made_of(heard: Heard, options: dict[str, Any]) -> None:
    loader = DataLoader(Drawn(), 4, shuffle=True, **options)
    next(iter(loader))  # an epoch that is given up
    for _ in range(2):
        list(loader)
    assert len(heard.batches) == 7
    for address, batch in heard.batches:
        assert address is not None
        assert list(address.indexes) == batch[:, 0].tolist()
        assert address.seed is None


@pytest.mark.parametrize("heard", [1.0], indirect=True)
@pytest.mark.parametrize("workers", [0, 2])
def test_the_same_address_gives_the_same_items_and_leaves_the_script_its_draws(heard: Heard, workers: int) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    loader = DataLoader(Drawn(), 4, num_workers=workers, generator=torch.Generator())
    found = list(loader)
    assert torch.equal(state, torch.get_rng_state())
    for (address, _), batch in zip(heard.batches, found, strict=True):
        assert address is not None
        assert address.seed is not None
        again, other = (
            torch.stack([Drawn()[index] for index in SeededIndexes(list(address.indexes), address.seed + more)])
            for more in (0, 1)
        )
        assert torch.equal(again, batch)
        assert not torch.isclose(other, batch)[:, 1:].any()


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_drawn_after_a_seeded_batch_is_what_would_have_been_drawn_in_it(heard: Heard, workers: int) -> None:
    def drawn(shares: list[float]) -> list[torch.Tensor]:
        share = iter(shares)
        heard.hooks._addresses._share_seeded = lambda: next(share)  # type: ignore[union-attr]
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        return [batch[:, 1:] for batch in DataLoader(Drawn(), 4, num_workers=workers, generator=seeded())]

    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(2)

    own, beside = drawn([0.0, 0.0, 0.0]), drawn([1.0, 0.0, 0.0])
    assert torch.equal(own[0], beside[1])
    assert torch.equal(own[1], beside[2])
    assert not torch.isclose(own[0], beside[0]).any()


@pytest.mark.parametrize("heard", [1.0], indirect=True)
def test_what_has_no_numbers_for_indexes_has_no_address(heard: Heard) -> None:
    list(DataLoader({"a": torch.zeros(1), "b": torch.ones(1)}, batch_size=1, sampler=["b", "a"]))  # type: ignore[arg-type]
    assert [address for address, _ in heard.batches] == [None, None]


def seeded_alike(_: int) -> None:
    np.random.seed(1)


@pytest.mark.parametrize(
    ("dataset", "options", "again"),
    [
        (Drawn(), {}, None),
        (Drawn(), {"num_workers": 2}, None),
        (Drawn(), {"num_workers": 2, "worker_init_fn": seeded_alike}, (6, 8)),  # two workers, twice two epochs
        (torch.zeros(12, 1), {"num_workers": 2, "worker_init_fn": seeded_alike}, None),  # nothing is drawn
    ],
)
def test_workers_that_draw_from_the_same_states(
    heard: Heard, tmp_path: Path, dataset: Any, options: dict[str, Any], again: tuple[int, int] | None
) -> None:
    loader = DataLoader(dataset, 2, **options)
    for _ in range(2):
        list(loader)
    ledger = Ledger.of_events(events_in(tmp_path))
    found = list(check_states(Ledger(), ledger))
    expected = [DrawReason.STATE_USED_BEFORE(again=again[0], draws=again[1], things="batches")] if again else []
    assert found == expected
