"""The hooks tell what a training does, cut it into phases, and are gone when they are removed."""

import copy
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.optim import SGD
from torch.utils.data import DataLoader, Dataset, IterableDataset

from workshop.probe.hooks import TrainingHooks
from workshop.probe.listener import Listener
from workshop.probe.phases import Phase
from workshop.probe.sharding import inner_optimizer
from workshop.probe.training_state import TrainingState


class Slow(Dataset):
    """Six items, each 10 ms late, that pass through a module on their way."""

    transform = nn.Sequential(nn.Identity(), nn.Dropout(0.5))

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.01)
        return self.transform(torch.ones(4)), index % 2


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.ones(8, 4))


STEP = [
    "before_batch",
    "on_batch",
    "on_copy",
    "before_forward",
    "after_forward",
    "before_forward",  # the loss function is a module, too
    "on_loss",
    "after_forward",
    "on_backward",
    "after_backward",
    "before_optimizer",
    "after_optimizer",
    "on_step_end:1",
]


def train(model: nn.Module, loader: Any, *, epochs: int = 1) -> None:
    optimizer, loss_fn = SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_fn(model(inputs.to("cpu")), targets).backward()
            optimizer.step()


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_training_does_in_its_order(workers: int, hooks: TrainingHooks, told: list[str]) -> None:
    """Workers are forked with the hooks, and tell nothing."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    train(model, DataLoader(Slow(), 3, num_workers=workers), epochs=2)
    assert told == ["on_loader_start", *STEP, *STEP, "before_batch"] * 2  # the last time, there is none
    hooks.remove()
    del told[:]
    train(model, DataLoader(Slow(), 3))
    assert told == []


def test_the_phases_are_the_wall_clock(hooks: TrainingHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """In made-up milliseconds: asking for the time takes one, and a sleep as long as it is to."""
    made = itertools.count()
    monkeypatch.setattr("workshop.probe.phase_clock.monotonic", lambda: next(made))
    monkeypatch.setattr("time.sleep", lambda seconds: [next(made) for _ in range(round(seconds * 1000))])
    hooks.clock.restart()
    model = nn.Linear(4, 2)
    train(model, DataLoader(Slow(), 3))
    with torch.no_grad():
        model.eval()(next(iter(DataLoader(Slow(), 3)))[0])
        time.sleep(0.03)
    time.sleep(0.05)
    seconds = hooks.clock.cut()
    assert sum(seconds.values()) == next(made) - 1
    assert seconds["data wait"] >= 60, "a module that the dataset calls is part of the loading"
    assert seconds["validation"] >= 60, "its data and what is done with its results belong to it"
    assert seconds["other"] >= 50
    assert all(seconds[phase] > 0 for phase in Phase)


class Breaks(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise KeyError("no such layer")


def test_an_exception_ends_its_phase(hooks: TrainingHooks, told: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(KeyError):
            Breaks()(torch.ones(1))
    assert hooks.clock.phase == Phase.OTHER
    assert told == ["before_forward", "after_forward"] * 2


def test_only_what_the_loop_itself_copies_is_a_copy(told: list[str]) -> None:

    class Copies(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs.to("cpu")

    Copies()(torch.ones(1))
    torch.ones(1).to(torch.float64)
    nn.Linear(1, 1).to("cpu")
    assert "on_copy" not in told
    torch.ones(1).to(device="cpu")
    assert told[-1] == "on_copy"


def test_a_step_ends_with_the_leading_optimizer(told: list[str]) -> None:
    first, second = (SGD([nn.Parameter(torch.ones(1))], lr=0.1) for _ in range(2))
    for _ in range(2):
        first.step()
        second.step()
    assert [each for each in told if "step_end" in each] == ["on_step_end:1"] * 2
    for _ in range(6):
        second.step()
    assert [each for each in told if "step_end" in each][2:] == ["on_step_end:5", *["on_step_end:1"] * 2]


def test_a_model_that_is_compiled_in_place_is_seen(told: list[str]) -> None:

    class NamedAsOurs(nn.Linear):
        def forward(self, module: torch.Tensor, original: int) -> torch.Tensor:
            return super().forward(module)

    model = NamedAsOurs(2, 2)
    model(module=torch.ones(1, 2), original=1)
    model.compile(backend="eager")
    for _ in range(2):
        model(module=torch.ones(1, 2), original=1)
    assert told == ["before_forward", "after_forward"] * 3


def test_another_thread_has_no_phases(hooks: TrainingHooks, told: list[str]) -> None:
    loading = threading.Thread(target=lambda: next(iter(DataLoader(Slow(), 3))))
    loading.start()
    loading.join()
    assert told == ["on_loader_start", "before_batch", "on_batch"]
    assert hooks.clock.cut()["data wait"] == 0


def test_what_a_listener_does_is_not_told(hooks: TrainingHooks, told: list[str]) -> None:

    class Copies(Listener):
        def on_batch(self, batch: Any) -> None:
            torch.ones(1).to("cpu")

    hooks.audience.listeners = (*hooks.audience.listeners, Copies())
    next(iter(DataLoader(Slow(), 3)))
    assert told == ["on_loader_start", "before_batch", "on_batch"]


def test_batches_are_kept_and_come_again_from_memory(hooks: TrainingHooks) -> None:
    """Also when the loop has changed them; an epoch is as long as it would be, with more batches or with fewer."""
    loader = DataLoader(Slow(), 2)
    hooks.loading.batches.keeping = True
    kept = []
    for _, targets in loader:
        kept.append(targets.clone())
        targets += 100
    assert hooks.loading.batches.kept == 3
    hooks.loading.batches.replaying = True
    epochs = [targets.tolist() for _ in range(2) for _, targets in loader]
    assert epochs == [kept[number % 3].tolist() for number in range(6)]
    assert hooks.loading.batches.replayed == 6


def test_a_loader_that_is_made_anew_takes_over(hooks: TrainingHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.probe.batch_store.loader_site", lambda _: "a line")
    hooks.loading.batches.keeping = True
    kept = [targets.tolist() for _, targets in DataLoader(Slow(), 3)]
    hooks.loading.batches.replaying = True
    there = DataLoader(Slow(), 2)
    assert [targets.tolist() for _, targets in there] == kept + kept[:1], "the epoch is as long as its own"
    assert len(list(DataLoader(Slow(), 6))) == 1, "of another, which is there"
    assert hooks.loading.batches.replayed == 3


def test_an_epoch_in_the_place_of_a_loaders_has_its_length(hooks: TrainingHooks) -> None:
    loader = DataLoader(Slow(), 2)
    hooks.loading.batches.keeping = True
    list(loader)
    for _ in range(2):
        hooks.loading.batches.replaying = True
        epoch = iter(loader)
        assert len(epoch) == 3
        next(epoch)
        hooks.loading.batches.replaying = False
        assert len(list(epoch)) == 2, "also where it goes on with batches of its own"


@pytest.mark.usefixtures("hooks")
def test_an_iterable_dataset_is_not_asked_for_its_length(recwarn: pytest.WarningsRecorder) -> None:
    class Counted(Stream):
        def __len__(self) -> int:
            return 2

    loader = DataLoader(Counted(), 2)
    for _ in range(2):
        assert sum(1 for _ in loader) == 4
    assert not [each for each in recwarn if "Length of IterableDataset" in str(each.message)]


def test_a_model_is_scripted_and_traced_without_the_hooks(told: list[str], recwarn: pytest.WarningsRecorder) -> None:
    model = nn.Sequential(nn.Linear(4, 2))
    train(model, DataLoader(Slow(), 2), epochs=2)
    torch.jit.script(model)
    torch.jit.trace(model, torch.ones(1, 4))
    assert not [each for each in recwarn if "workshop/probe" in str(each.filename)]
    told.clear()
    model(torch.ones(1, 4))
    assert told == ["before_forward", "after_forward"]


@pytest.mark.usefixtures("hooks")
def test_a_model_with_its_loss_in_it_is_scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchScript compiles the loss function itself, not what is around it; it reads the source of a file."""
    (tmp_path / "with_a_loss.py").write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n"
        "    def forward(self, x, y):\n        return nn.functional.mse_loss(x, y)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import with_a_loss  # type: ignore[import-not-found]

    scripted = torch.jit.script(obj=with_a_loss.Net())
    assert scripted(torch.ones(3), torch.zeros(3)) == 1


@pytest.mark.usefixtures("hooks")
def test_losses_of_a_generator_come_by_keyword() -> None:
    weight = torch.ones(1, requires_grad=True)
    torch.autograd.backward(tensors=(factor * weight for factor in (1.0, 2.0)))
    assert weight.grad == 3


@pytest.mark.usefixtures("hooks")
def test_a_model_may_have_parameters_of_its_own_kind() -> None:
    class Grouped(nn.Linear):
        def parameters(self, lr: float) -> list[dict[str, Any]]:  # type: ignore[override]
            return [{"params": list(super().parameters()), "lr": lr}]

    model = Grouped(2, 1)
    optimizer = SGD(model.parameters(0.1))
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()


def test_an_optimizer_in_the_backward_pass_ends_no_step(told: list[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizers = {parameter: SGD([parameter], lr=0.1) for parameter in model.parameters()}
    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(lambda parameter: optimizers[parameter].step())
    model(torch.ones(2, 4)).sum().backward()
    assert told.count("on_backward") == 1
    assert not [each for each in told if each.startswith("on_step_end")]


def test_clipping_belongs_to_the_optimizer(hooks: TrainingHooks) -> None:
    model = nn.Linear(4, 2)
    model(torch.ones(2, 4)).sum().backward()
    phases: list[Phase] = []
    hooks.clock.on_enter = phases.append
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    assert phases == [Phase.OPTIMIZER] * 2


def test_what_somebody_wraps_later_stays_wrapped(hooks: TrainingHooks) -> None:
    ours = nn.functional.cross_entropy
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "cross_entropy", lambda *args: ours(*args) * 2)
        hooks.remove()
        assert float(nn.functional.cross_entropy(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))) > 1.3
        patch.setattr(nn.functional, "cross_entropy", ours.__wrapped__)  # as it was before


def test_an_epoch_that_has_begun_ends_in_time_with_batches_from_memory(hooks: TrainingHooks) -> None:
    for loader in (DataLoader(Slow(), 2), DataLoader(Slow(), 2, num_workers=1, persistent_workers=True)):
        hooks.loading.batches.keeping, hooks.loading.batches.replaying = True, False
        for replays_from in (3, 1, 2):
            hooks.loading.batches.replaying = False
            batches = iter(loader)
            for number in range(replays_from):
                assert next(batches) is not None, number
            hooks.loading.batches.replaying = True
            assert len(list(batches)) == 3 - replays_from


def test_the_length_of_an_epoch_that_only_its_end_tells(hooks: TrainingHooks) -> None:
    """An iterable dataset has no length, and a loader of somebody's own may be endless below."""
    loader = DataLoader(Stream(), 2)
    hooks.loading.batches.keeping = True
    assert len(list(loader)) == 4
    hooks.loading.batches.replaying = True
    assert len(list(loader)) == 4


@pytest.mark.parametrize("batch_size", [None, 2])
def test_an_epoch_that_began_with_batches_from_memory_goes_on_with_its_own(
    batch_size: int | None, hooks: TrainingHooks
) -> None:
    """An iterator of an iterable dataset has no length, and neither is it true nor false."""
    loader = DataLoader(Stream(), batch_size)
    hooks.loading.batches.keeping = True
    whole = len(list(loader))
    hooks.loading.batches.keeping, hooks.loading.batches.replaying = False, True
    batches = iter(loader)
    next(batches)
    hooks.loading.batches.replaying = False
    assert len(list(batches)) == whole - 1


class Broken(Listener):
    """Fails in one of its methods."""

    def __init__(self, method: str) -> None:
        self.faults: list[str] = []
        setattr(self, method, self.fail)

    def fail(self, *_: Any) -> None:
        raise KeyError("a fault of ours")

    def on_fault(self, fault: str) -> None:
        self.faults.append(fault)
        raise RuntimeError("and another one")


LISTENED = [name for name in vars(Listener) if name.startswith(("on_", "before_", "after_")) and name != "on_fault"]

NOT_TOLD = (
    "on_adaptive_schedule",
    "on_skipped_step",
    "on_stage",
    "on_pageable_copy",
    "before_model",
    "before_validation",
)
"""What no hook tells of the training below."""


@pytest.mark.parametrize("method", [name for name in LISTENED if name not in NOT_TOLD])
def test_a_fault_of_a_listener_never_reaches_the_script(method: str, hooks: TrainingHooks, told: list[str]) -> None:
    broken = Broken(method)
    hooks.audience.listeners = (broken, *hooks.audience.listeners)
    train(nn.Linear(4, 2), DataLoader(Slow(), 2), epochs=2)
    assert [fault.startswith("KeyError: 'a fault of ours' (test_hooks.py, line ") for fault in broken.faults] == [True]
    assert told[-1] == "on_fault"
    assert told.count("on_fault") == 1
    assert not hasattr(nn.Module.__call__, "__wrapped__"), "the hooks are gone"


def test_a_listener_that_gives_up_alone_leaves_the_others(hooks: TrainingHooks, told: list[str]) -> None:
    broken = Broken("after_backward")
    broken.gives_up_alone = lambda error: isinstance(error, KeyError)  # type: ignore[method-assign]
    hooks.audience.listeners = (broken, *hooks.audience.listeners)
    train(nn.Linear(4, 2), DataLoader(Slow(), 2), epochs=2)
    assert broken not in hooks.audience.listeners
    assert told.count("after_backward") == told.count("on_backward") > 2
    assert not broken.faults


def test_a_batch_that_cannot_be_kept_is_the_scripts_all_the_same(hooks: TrainingHooks) -> None:
    class Unkept:
        def __deepcopy__(self, _: Any) -> None:
            raise TypeError("not to be copied")

    hooks.loading.batches.keeping = True
    batches = list(DataLoader([1, 2, 3], 1, collate_fn=lambda _: Unkept()))
    assert [type(each) for each in batches] == [Unkept] * 3
    assert not hooks.loading.batches.keeping


def test_a_model_is_copied_and_saved_without_the_hooks(told: list[str], tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 2))
    train(model, DataLoader(Slow(), 2), epochs=2)
    torch.save(model, tmp_path / "model.pt")
    assert b"workshop" not in (tmp_path / "model.pt").read_bytes()
    told.clear()
    for other in (copy.deepcopy(model), torch.load(tmp_path / "model.pt", weights_only=False)):
        assert torch.equal(other(torch.ones(1, 4)), model(torch.ones(1, 4)))
    assert told.count("before_forward") == 2, "of the model itself"


def test_a_sharded_optimizer_steps_once(hooks: TrainingHooks, told: list[str]) -> None:
    """It has all parameters, and the settings of the one inside of it, which steps a share of them."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.Linear(4, 2)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), SGD, lr=0.1, momentum=0.9)
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    finally:
        distributed.destroy_process_group()
    assert told[-3:] == ["before_optimizer", "after_optimizer", "on_step_end:1"]
    assert told.count("before_optimizer") == 1
    assert type(inner_optimizer(optimizer)) is SGD
    state = TrainingState([model], [optimizer])
    assert [list(state.state_of(each)) for each in state.parameters] == [["momentum_buffer"]] * 2
