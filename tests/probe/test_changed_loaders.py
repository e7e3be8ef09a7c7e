"""Other numbers of workers for the DataLoaders of a training that is under way."""

import multiprocessing
import os
from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler

from workshop.probe.changed_loaders import start_method_of
from workshop.probe.hooks import TrainingHooks
from workshop.probe.loader_settings import LoaderSettings


class WhoLoads(Dataset[torch.Tensor]):
    """Each item is the number of the process that has loaded it."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, os.getpid(), torch.get_num_threads()])


class Endless(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.tensor([0, os.getpid(), 0])


def loaded_by(batch: torch.Tensor) -> set[int]:
    return set(batch[:, 1].tolist())


def test_an_epoch_that_has_begun_goes_on_with_other_workers(hooks: TrainingHooks, told: list[str]) -> None:
    batches = iter(DataLoader(WhoLoads(), batch_size=2))
    assert loaded_by(next(batches)) == {os.getpid()}
    hooks.loading.loaders.load_with(LoaderSettings(2, worker_threads=1))
    others = [loaded_by(next(batches)) for _ in range(2)]
    assert os.getpid() not in set.union(*others)
    with pytest.raises(StopIteration):
        next(batches)
    assert told.count("on_batch") == 3


def test_an_epoch_has_its_length_and_its_workers_stay(hooks: TrainingHooks) -> None:
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))
    loader = DataLoader(WhoLoads(), batch_size=2, num_workers=2)
    epochs = [[loaded_by(batch) for batch in loader] for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [3, 3, 3]
    assert len(set.union(*(pids for epoch in epochs for pids in epoch))) == 1


def test_workers_have_one_thread(hooks: TrainingHooks) -> None:
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))
    loader = DataLoader(WhoLoads(), batch_size=6, num_workers=1, worker_init_fn=lambda _: torch.set_num_threads(2))
    assert {int(threads) for batch in loader for threads in batch[:, 2]} == {1}


class Stateful(WhoLoads):
    """Changes with each item, and tells all processes who has loaded one."""

    def __init__(self) -> None:
        self.loaders = torch.zeros(1000, dtype=torch.long).share_memory_()
        self.next = torch.zeros(1, dtype=torch.long).share_memory_()
        self.calls, self.cache, self.dice = 0, dict[int, int](), torch.Generator().manual_seed(0)

    def __getitem__(self, index: int) -> torch.Tensor:
        self.loaders[self.next] = os.getpid()
        self.next += 1
        self.calls += 1
        self.cache[index] = int(torch.randint(9, (), generator=self.dice))
        return super().__getitem__(index)

    @property
    def pids(self) -> set[int]:
        return set(self.loaders[: int(self.next)].tolist())


def test_without_workers_a_process_loads_that_is_thrown_away(hooks: TrainingHooks) -> None:
    """What only workers may have is left out, and the training gets batches that were kept."""
    dataset = Stateful()
    loader = DataLoader(dataset, batch_size=3, num_workers=1, prefetch_factor=4, timeout=30, persistent_workers=True)
    first, second = (loaded_by(batch) for batch in loader)
    assert first == second == dataset.pids
    hooks.loading.loaders.load_with(LoaderSettings(0, worker_threads=1))
    epochs = [[loaded_by(batch) for batch in loader] for _ in range(2)]
    assert epochs == [[first] * 2] * 2
    others = dataset.pids - first
    assert others
    assert os.getpid() not in others
    assert not dataset.calls
    hooks.loading.loaders.load_with(None)
    for pid in others:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_stays_in_the_objects_of_the_training(hooks: TrainingHooks, workers: int) -> None:
    dataset, dice = Stateful(), torch.Generator().manual_seed(1)
    loader = DataLoader(dataset, batch_size=2, shuffle=True, generator=dice)

    def state() -> tuple[object, ...]:
        drawn = [dataset.dice, dice, torch.default_generator]
        return dataset.calls, {**dataset.cache}, *(each.get_state().tolist() for each in drawn)

    hooks.loading.batches.keeping = True
    next(iter(loader))
    before = state()
    hooks.loading.loaders.load_with(LoaderSettings(workers))
    assert [len(list(loader)) for _ in range(3)] == [3, 3, 3]
    assert hooks.loading.loaders.given == 9
    assert state() == before


class OpensLazily(WhoLoads):
    """As guides recommend for workers: each process opens its own file."""

    def __init__(self, path: str) -> None:
        self.path, self.file, self.opened_in = path, None, 0

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.file is None:
            self.file, self.opened_in = open(self.path, "rb"), os.getpid()  # type: ignore[assignment]  # noqa: SIM115
        if self.opened_in != os.getpid():
            raise RuntimeError("inherited")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 1])
def test_each_process_of_a_trial_opens_its_own_files(hooks: TrainingHooks, workers: int) -> None:
    loader = DataLoader(OpensLazily(__file__), batch_size=1)
    next(iter(loader))
    hooks.loading.loaders.load_with(LoaderSettings(workers))
    assert len(list(loader)) == 6
    assert not hooks.loading.loaders.failure
    assert hooks.loading.loaders.given


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_was_open_before_is_not_shared(hooks: TrainingHooks, workers: int) -> None:
    dataset = OpensLazily(__file__)
    dataset[0]
    loader = DataLoader(dataset, batch_size=1)
    next(iter(loader))
    hooks.loading.loaders.load_with(LoaderSettings(workers))
    assert len(list(loader)) == 6
    assert "holds an open BufferedReader" in hooks.loading.loaders.failure
    assert not hooks.loading.loaders.given


def test_afterwards_all_is_as_before(hooks: TrainingHooks) -> None:
    """The epoch that began in the trial goes on with the script's own batches, and has its length."""
    loader = DataLoader(WhoLoads(), batch_size=1)
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))
    batches = iter(loader)
    next(batches)
    hooks.loading.loaders.load_with(None)
    assert [loaded_by(batch) for batch in batches] == [{os.getpid()}] * 5
    assert [loaded_by(batch) for batch in loader] == [{os.getpid()}] * 6


def test_a_validation_is_left_alone(hooks: TrainingHooks) -> None:
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))
    with torch.no_grad():
        assert [loaded_by(batch) for batch in DataLoader(WhoLoads(), batch_size=6)] == [{os.getpid()}]


def test_a_dataset_without_length(hooks: TrainingHooks) -> None:
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))
    batches = iter(DataLoader(Endless(), batch_size=4))
    assert os.getpid() not in loaded_by(next(batches))


def test_loaders_that_are_made_in_one_line_keep_their_data(hooks: TrainingHooks) -> None:
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))
    pairs = zip(*(DataLoader(dataset, batch_size=1) for dataset in ([1, 2, 3], [4, 5, 6])), strict=True)
    assert [(int(one), int(other)) for one, other in pairs] == [(1, 4), (2, 5), (3, 6)]


def test_a_loader_that_is_made_anew_takes_over(hooks: TrainingHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.probe.changed_loaders.loader_site", lambda _: "a line")
    monkeypatch.setattr("workshop.probe.changed_loaders.loader_number", lambda loader: loader.dataset.number)
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))

    def epoch(number: int) -> set[int]:
        dataset = WhoLoads()
        dataset.number = number  # type: ignore[attr-defined]
        return set().union(*(loaded_by(batch) for batch in DataLoader(dataset, batch_size=2)))

    assert epoch(1) == epoch(2) == epoch(3)
    monkeypatch.setattr("workshop.probe.changed_loaders.is_there", lambda _: True)
    assert epoch(4) != epoch(3)


class UsedUp(IterableDataset[torch.Tensor]):
    """It can be gone through once."""

    def __init__(self) -> None:
        self.left = iter(range(4))

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor(each) for each in self.left)


def test_if_others_can_load_no_more_the_script_goes_on(hooks: TrainingHooks) -> None:
    """What a process has used up that is thrown away is still there for the script."""
    hooks.loading.loaders.load_with(LoaderSettings(0, worker_threads=1))
    loader = DataLoader(UsedUp(), batch_size=1)
    assert [int(batch) for batch in loader] == [0, *[0] * 3, 1, 2, 3]
    assert not hooks.loading.loaders.are_tried(loader)


class OneIterator(DataLoader[torch.Tensor]):
    """As several libraries have it: the iterator is made once, and never ends."""

    def __iter__(self) -> Iterator[torch.Tensor]:  # type: ignore[override]
        self.__dict__.setdefault("endless", super().__iter__())
        for _ in range(len(self)):
            yield next(self.endless)


def test_an_iterator_that_never_ends_is_not_ended(hooks: TrainingHooks) -> None:
    loader = OneIterator(WhoLoads(), batch_size=2)
    assert len(list(loader)) == 3
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))
    others = [pid for _ in range(3) for batch in loader for pid in loaded_by(batch)]
    assert len(others) == 9
    assert os.getpid() not in others


def test_workers_of_a_loader_that_is_gone_end(hooks: TrainingHooks) -> None:
    loader = DataLoader(WhoLoads(), batch_size=2, num_workers=1, persistent_workers=True)
    next(iter(loader))
    (worker,) = loader._iterator._workers  # type: ignore[union-attr]
    del loader
    worker.join(10)
    assert not worker.is_alive()


class OnlyHere(WhoLoads):
    """Cannot be loaded in another process."""

    here = os.getpid()

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() != self.here:
            raise RuntimeError("the file is open elsewhere")
        return super().__getitem__(index)


def test_what_fails_says_why_and_the_own_loader_goes_on(hooks: TrainingHooks) -> None:
    hooks.loading.loaders.load_with(LoaderSettings(1, worker_threads=1))
    loader = DataLoader(OnlyHere(), batch_size=3)
    assert [loaded_by(batch) for batch in loader] == [{os.getpid()}] * 2
    assert hooks.loading.loaders.failure == "RuntimeError: the file is open elsewhere"
    assert not hooks.loading.loaders.are_tried(loader)
    hooks.loading.loaders.load_with(None)
    assert hooks.loading.loaders.failure == ""


def test_only_the_loader_that_is_meant_is_replaced(hooks: TrainingHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = DataLoader(WhoLoads(), batch_size=6), DataLoader(WhoLoads(), batch_size=6)
    monkeypatch.setattr("workshop.probe.changed_loaders.site_of", {1: id(one)}.get)
    hooks.loading.loaders.load_with(LoaderSettings(1), loader=1)
    assert os.getpid() not in loaded_by(next(iter(one)))
    assert loaded_by(next(iter(other))) == {os.getpid()}
    assert hooks.loading.loaders.started_s > 0


@pytest.mark.slow
def test_other_settings_reach_the_loader(hooks: TrainingHooks) -> None:
    """Spawned workers load what forked ones would."""
    hooks.loading.loaders.load_with(LoaderSettings(1, prefetch_factor=3, start_method="spawn"))
    loader = DataLoader([torch.tensor([each, 0, 0]) for each in range(4)], batch_size=2)
    batches = iter(loader)
    assert [next(batches)[:, 0].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    (stream,) = hooks.loading.loaders._streams.values()
    changed = stream.gi_frame.f_locals["begin"].__closure__[0].cell_contents  # type: ignore[attr-defined]
    assert LoaderSettings.of(changed) == LoaderSettings(1, 3, persistent=True, start_method="spawn")


def test_workers_go_on_to_the_next_epoch_at_once(hooks: TrainingHooks) -> None:
    """So that no batch comes faster because the epoch is almost over; the sampler that draws for them is a copy."""
    passes = []

    class Ordered(SequentialSampler):
        epochs = 0

        def __iter__(self) -> Iterator[int]:
            self.epochs += 1
            passes.append(self.epochs)
            return super().__iter__()

    hooks.loading.loaders.load_with(LoaderSettings(1, prefetch_factor=2))
    data = [torch.tensor([each, 0, 0]) for each in range(3)]
    sampler = Ordered(data)
    batches = iter(DataLoader(data, sampler=sampler))
    assert [int(next(batches)[0, 0]) for _ in range(2)] == [0, 1]
    assert len(passes) > 1
    assert sampler.epochs == 0


def test_how_workers_are_started_is_known_where_the_script_has_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(WhoLoads(), num_workers=1)
    assert start_method_of(loader) == multiprocessing.get_all_start_methods()[0]
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "forkserver")
    assert start_method_of(loader) == "forkserver"
    assert start_method_of(DataLoader(WhoLoads(), num_workers=1, multiprocessing_context="spawn")) == "spawn"
