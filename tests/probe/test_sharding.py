"""What is shared out to ranks is recorded whole, as one process has it."""

from collections.abc import Iterator

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim import AdamW

from workshop.probe.optimizers import is_only_asked
from workshop.probe.recorded_step import gradients_of
from workshop.probe.sharding import is_flat
from workshop.probe.spots import VALUES, Spots
from workshop.probe.training_state import TrainingState


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_sharded_parameters_are_recorded_whole() -> None:
    model = nn.Linear(4, 2)
    plain = model.weight.detach().clone()
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    optimizer = AdamW(model.parameters())
    state = TrainingState([model], [optimizer])
    assert torch.equal(state.copy()["parameters"][0], plain)
    model(torch.ones(1, 4)).sum().backward()
    during = TrainingState([model], [optimizer], state.parameters)
    optimizer.step()
    copied, gradients = during.copy(), gradients_of(optimizer, during)
    assert torch.equal(gradients[0], torch.ones(2, 4))
    recorded = [*copied["parameters"], *copied["state"][0].values(), *gradients.values()]
    recorded += [value for values in during.some_values() for value in values.values()]
    assert {type(each) for each in recorded} == {torch.Tensor}
    assert Spots(during.parameters).values([optimizer]).rows().shape == (2 + 2 * 3, VALUES)


@pytest.mark.parametrize("is_model_sharded", [True, False])
def test_a_step_is_taken_again_where_something_is_sharded(is_model_sharded: bool) -> None:
    """With what was recorded whole, as in another process; then all is as it was."""
    model = nn.Linear(4, 2)
    if is_model_sharded:
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    parameters, lr = list(model.parameters()), 0.1
    optimizer = AdamW(parameters, lr) if is_model_sharded else ZeroRedundancyOptimizer(parameters, AdamW, lr=lr)
    state = TrainingState([model], [optimizer])

    def step() -> list[torch.Tensor]:
        optimizer.zero_grad()
        model(torch.tensor([[1.0, 2.0, 3.0, 4.0]])).square().sum().backward()
        optimizer.step()
        return [value for values in state.some_values() for value in values.values()]

    step()
    before, own = state.copy(), state.own_state()
    once = step()
    state.load(before)
    state.load_state(before["state"])
    assert all(map(torch.equal, step(), once))
    state.put_back(own)
    assert all(one is other for one, other in zip(state.own_state(), own, strict=True))


def test_a_model_that_no_optimizer_steps_is_only_asked() -> None:
    """That of one which is sharded is not known while it is called."""
    models = [nn.Linear(2, 2) for _ in range(3)]
    optimizer = AdamW(models[1].parameters())
    fully_shard(models[2], mesh=init_device_mesh("cpu", (1,)))
    assert [is_only_asked(model) for model in models] == [True, False, False]
    assert optimizer


def test_parameters_that_are_joined_are_known() -> None:
    assert is_flat(FullyShardedDataParallel(nn.Linear(4, 2), device_id=torch.device("cpu")))
    assert not is_flat(nn.Linear(4, 2))
