"""What a backward pass finds and does not need: graphs of parameters nobody trains, and of several passes at once."""

import linecache

import torch
from torch import nn

from workshop.probe.memory.graph_use import Freed, GraphUse
from workshop.probe.memory.inventory import saved_by_graphs
from workshop.probe.memory.memory_notes import TensorKind
from workshop.probe.memory.storage_lives import StorageLives


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
    _, path, line = lives.stacks.take_new()[freed[1]][-1]
    return linecache.getline(path, line).strip()


def test_a_teacher_that_computes_with_gradients() -> None:
    student, teacher, inputs = Net(), Net(), torch.randn(32, 64)
    lives = follow()
    wanted = teacher(inputs)
    loss = (student(inputs) - wanted).square().mean()
    freed = use_of(lives, loss).unused(identities(student))
    assert sum(each.size for each in freed[0]) >= 32 * 64 * 4, "the output of the teacher's relu"
    assert place(lives, freed) == "wanted = teacher(inputs)"


def test_a_part_that_nobody_trains() -> None:
    model, inputs = Frozen(), torch.randn(32, 64)
    lives = follow()
    loss = model(inputs).square().mean()
    freed = use_of(lives, loss).unused(identities(model.head))
    assert freed[0]
    assert place(lives, freed) == "return self.head(self.body(inputs))"


def test_what_is_trained_is_needed_and_so_is_the_gradient_of_an_input() -> None:
    model, inputs = Net(), torch.randn(32, 64, requires_grad=True)
    lives = follow()
    loss = model(inputs).square().mean()
    use = use_of(lives, loss)
    assert use.unused(identities(model)) == ([], -1)
    assert use.unused(set()) == ([], -1)
    assert use.summed() == ([], -1)


def test_losses_that_are_added_up() -> None:
    model, batches = Net(), torch.randn(4, 32, 64)
    lives = follow()
    total = torch.zeros(())
    for inputs in batches:
        total = total + model(inputs).square().mean() / 4
    freed = use_of(lives, total).summed()
    assert sum(each.size for each in freed[0]) >= 3 * 32 * 64 * 4, "the relu of all but one"
    assert place(lives, freed) == "total = total + model(inputs).square().mean() / 4"


def test_two_different_losses_are_no_passes_of_a_loop() -> None:
    model, real, made = Net(), torch.randn(32, 64), torch.randn(32, 64)
    lives = follow()
    loss_of_real = model(real).square().mean()
    loss_of_made = model(made).relu().mean()
    assert use_of(lives, loss_of_real + loss_of_made).summed() == ([], -1)


def test_passes_that_share_what_they_compute() -> None:
    model, inputs = Net(), torch.randn(32, 64)
    lives = follow()
    features = model.first(inputs)
    total = torch.zeros(())
    for power in (1, 2):
        total = total + model.second(features * power).mean()
    assert use_of(lives, total).summed() == ([], -1)
