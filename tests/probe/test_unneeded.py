"""What a backward pass finds and does not need: graphs of parameters nobody trains, and of several passes at once."""

import linecache

import pytest
import torch
from torch import nn

from workshop.probe.backward_graph import saved_by_graphs
from workshop.probe.memory.memory_notes import TensorKind
from workshop.probe.memory.storage_lives import StorageLives
from workshop.probe.memory.unneeded import Freed, GraphUse, Unneeded, changed_parameters


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(inputs).relu())


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = Net(), nn.Linear(1, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(inputs))


def follow() -> StorageLives:
    lives = StorageLives(lambda _: None)
    lives.begin()
    return lives


def use_of(lives: StorageLives, loss: torch.Tensor) -> GraphUse:
    lives.end()
    lives.mark(TensorKind.ACTIVATIONS, saved_by_graphs([loss]))
    return GraphUse([loss], lives)


def identities(*models: nn.Module) -> set[int]:
    return {id(parameter) for model in models for parameter in model.parameters()}


def place(lives: StorageLives, freed: Freed) -> str:
    _, path, line = lives.stacks.take_new()[freed.stack][-1]
    return linecache.getline(path, line).strip()


def test_a_teacher_that_computes_with_gradients() -> None:
    student, teacher, inputs = Net(), Net(), torch.randn(32, 64)
    lives = follow()
    wanted = teacher(inputs)
    loss = (student(inputs) - wanted).square().mean()
    freed = use_of(lives, loss).unused(identities(student))
    assert sum(each.size for each in freed.lives) >= 32 * 64 * 4, "the output of the teacher's relu"
    assert place(lives, freed) == "wanted = teacher(inputs)"


def test_a_part_that_nobody_trains() -> None:
    model, inputs = Frozen(), torch.randn(32, 64)
    lives = follow()
    loss = model(inputs).square().mean()
    freed = use_of(lives, loss).unused(identities(model.head))
    assert freed.lives
    assert place(lives, freed) == "return self.head(self.body(inputs))"


class Probe(nn.Module):
    """A part that nobody trains, whose own lines are several, is called on a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = Body(), nn.Linear(64, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        features = self.body(inputs)
        return self.head(features.relu())


class Body(Net):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        first = self.first(inputs).relu()
        return self.first(first).exp()


def test_a_part_with_several_lines_that_nobody_trains() -> None:
    model, inputs = Probe(), torch.randn(32, 64)
    lives = follow()
    loss = model(inputs).square().mean()
    assert place(lives, use_of(lives, loss).unused(identities(model.head))) == "features = self.body(inputs)"


def test_what_is_trained_is_needed_and_so_is_the_gradient_of_an_input() -> None:
    model, inputs = Net(), torch.randn(32, 64, requires_grad=True)
    lives = follow()
    loss = model(inputs).square().mean()
    use = use_of(lives, loss)
    assert use.unused(identities(model)) == Freed()
    assert use.unused(set()) == Freed()
    assert use.summed() == Freed()


def test_losses_that_are_added_up() -> None:
    model, batches = Net(), torch.randn(4, 32, 64)
    lives = follow()
    total = torch.zeros(())
    for inputs in batches:
        total = total + model(inputs).square().mean() / 4
    freed = use_of(lives, total).summed()
    assert sum(each.size for each in freed.lives) >= 3 * 32 * 64 * 4, "the relu of all but one"
    assert place(lives, freed) == "total = total + model(inputs).square().mean() / 4"


def test_two_different_losses_are_no_passes_of_a_loop() -> None:
    model, real, made = Net(), torch.randn(32, 64), torch.randn(32, 64)
    lives = follow()
    loss_of_real = model(real).square().mean()
    loss_of_made = model(made).relu().mean()
    assert use_of(lives, loss_of_real + loss_of_made).summed() == Freed()


def test_passes_that_share_what_they_compute() -> None:
    model, inputs = Net(), torch.randn(32, 64)
    lives = follow()
    features = model.first(inputs)
    total = torch.zeros(())
    for power in (1, 2):
        total = total + model.second(features * power).mean()
    assert use_of(lives, total).summed() == Freed()


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.beside = nn.Linear(64, 64), nn.Linear(64, 1), nn.Linear(64, 512)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.body(inputs).relu()
        beside = self.beside(features)
        return self.head(features), beside


def in_steps(model: TwoHeads, factors: list[float]) -> tuple[StorageLives, dict[str, Freed]]:
    """Return what a step at the end does not need whose second loss has had these factors, one step each."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lives = StorageLives(lambda _: None)
    unneeded = Unneeded(lives)
    unneeded.know_optimizers()
    for factor in factors:
        unneeded.begin()
        lives.begin()
        optimizer.zero_grad()
        first, second = model(torch.randn(32, 64))
        loss = first.square().mean() + factor * second.logsumexp(-1).mean()
        lives.mark(TensorKind.ACTIVATIONS, saved_by_graphs([loss]))
        unneeded.on_backward([loss])
        loss.backward()
        unneeded.after_backward(model.parameters())
        unneeded.on_gradients(model.parameters())
        optimizer.step()
        lives.end()
    return lives, {cause: Freed(some, stack) for cause, some, stack in unneeded.of_device("cpu")}


def test_a_head_whose_loss_is_multiplied_by_zero() -> None:
    lives, freed = in_steps(TwoHeads(), [0.0, 0.0, 0.0])
    assert set(freed) == {"zero-gradients"}
    size = sum(each.size for each in freed["zero-gradients"].lives)
    assert size >= 32 * 512 * 4 * 2 + 512 * 64 * 4, "what it computes, forward and backward, and the gradients"
    assert place(lives, freed["zero-gradients"]) == "beside = self.beside(features)"


def test_a_gradient_that_is_zero_only_at_first() -> None:
    assert in_steps(TwoHeads(), [0.0, 0.0])[1] == {}, "it may be so in the first steps alone"
    assert in_steps(TwoHeads(), [0.0, 1.0, 0.0, 0.0, 0.0])[1] == {}
    assert in_steps(TwoHeads(), [0.0, 0.0, 1.0])[1] == {}, "this step shows that it was so only for a while"


def test_a_head_that_gets_no_gradient_and_hands_none_on() -> None:
    """What is computed before is needed: only the other loss goes through it, but with a gradient that is not 0."""
    model, inputs = TwoHeads(), torch.randn(32, 64)
    lives = follow()
    features = model.body(inputs).relu()
    loss = model.head(features).mean() + 0.0 * model.beside(features.detach()).logsumexp(-1).mean()
    freed = use_of(lives, loss).without_gradient(identities(model.beside))
    needed = {lives.find(features)}
    assert freed.lives
    assert needed.isdisjoint(freed.lives)
    assert use_of(lives, loss).without_gradient(identities(model)) == Freed(), "a loss without any gradient"


def test_a_parameter_that_is_chosen_hides_no_gradient_of_what_is_behind_it() -> None:
    model, instead, inputs = Net(), nn.Parameter(torch.zeros(64)), torch.randn(32, 64)
    lives = follow()
    chosen = torch.where(torch.zeros(32, 1, dtype=torch.bool), instead, model.first(inputs))
    loss = model.second(chosen).square().mean()
    assert use_of(lives, loss).without_gradient({id(instead)}) == Freed()


@pytest.mark.parametrize("rate", [None, [0.0], torch.zeros(2), lambda: 0.0, 0.1, torch.tensor(0.1)])
def test_a_learning_rate_that_is_not_known_to_be_zero(rate: object) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups[0]["lr"] = rate
    assert changed_parameters([optimizer]) == identities(model)


def test_a_new_optimizer_for_parameters_of_one_that_is_gone() -> None:
    model, lives = Net(), follow()
    unneeded = Unneeded(lives)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model.first, model.second)]
    unneeded.know_optimizers()
    optimizers[0] = torch.optim.SGD(model.first.parameters(), lr=0.1)
    unneeded.on_backward([model(torch.randn(32, 64)).mean()])
    lives.end()
    assert not [*unneeded.of_device("cpu")]


def test_parameters_with_a_learning_rate_of_zero_are_not_changed() -> None:
    model = TwoHeads()
    groups = [{"params": model.body.parameters(), "lr": 0.0}, {"params": model.head.parameters()}]
    assert changed_parameters([torch.optim.SGD(groups, lr=0.1)]) == identities(model.head)
