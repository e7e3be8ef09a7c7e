"""A loop takes the step of another script: with its state, its batch and its random draws; then all is as it was."""

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim import SGD, AdamW

from workshop.judge.step_proof import ROUNDING, STATE_TOLERANCE, STEP_TOLERANCE
from workshop.probe import recorded_step
from workshop.probe.batch_use import BatchUse
from workshop.probe.messages import Recomputation
from workshop.probe.recomputation import recompute
from workshop.probe.recorded_step import StepRecorder, tensors_in_call
from workshop.probe.retaken_step import RetakenStep, Taken
from workshop.probe.training_state import TrainingState

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may have compiled something in this process."""
    monkeypatch.setattr(recorded_step, "has_compiled", lambda: False)


class Loop:
    """A training, a step at a time, with what the hooks would do written out."""

    def __init__(self, seed: int, kind: Callable[..., torch.optim.Optimizer] = AdamW, dropout: float = 0.5) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(dropout), nn.Linear(8, 3))
        self.optimizer = kind(self.model.parameters(), lr=0.1)
        self.state = TrainingState([self.model], [self.optimizer])
        self.last: Any = None
        for _ in range(2):
            self.step(self.draw())

    def draw(self, items: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
        self.last = torch.randn(items, 6), torch.randint(3, (items,))
        return self.last

    def step(self, batch: tuple[torch.Tensor, torch.Tensor], loss: Loss = functional.cross_entropy) -> None:
        self.optimizer.zero_grad()
        loss(self.model(batch[0]), batch[1]).backward()
        self.optimizer.step()

    def record(self, folder: Path, cheat: Callable[["Loop"], None] = lambda loop: None) -> Path:
        """Take a step and record it; `cheat` does something to the gradients."""
        recorder, batches, batch = StepRecorder(folder, 0, lambda seconds: None), BatchUse(), self.draw()
        batches.load(batch, in_training_thread=True)
        recorder.note_beginning(self.state)
        recorder.enter(0, tensors_in_call(self.model, (batch[0],), {}), self.state)
        batches.use(batch[0])
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(batch[0]), batch[1])
        recorder.on_backward(loss)
        loss.backward()
        cheat(self)
        recorder.before_optimizer(self.optimizer, self.state)
        self.optimizer.step()
        recorder.after_optimizer(self.optimizer, self.state)
        recorder.after_step(self.state, batches, False)
        return Path(recorder.save() or "")

    def take(self, step: RetakenStep, loss: Loss = functional.cross_entropy, sees_loss: bool = False) -> Taken:
        """Take a recorded step as `step` does."""
        inputs, targets = step.batch(has_begun=True)
        self.optimizer.zero_grad()
        changed = step.enter(0, self.model, (inputs,), {})
        value = loss(self.model(changed[0][0] if changed else inputs), step.targets(targets) if sees_loss else targets)
        step.on_backward(value)
        value.backward()
        step.before_optimizer(self.optimizer)
        self.optimizer.step()
        step.after_optimizer(self.optimizer)
        return step.end()

    def retake(self, *samples: Path, is_plain: bool = True, **how: Any) -> Recomputation:
        attempts, batches = recompute(samples, self.state, {}), BatchUse()
        batches.last, batches.is_plain = self.last, is_plain
        try:
            attempt = next(attempts)
            while True:
                attempt = attempts.send(self.take(RetakenStep(attempt, self.state, batches), **how))
        except StopIteration as end:
            found: Recomputation = end.value
            return found

    def all(self) -> list[Any]:
        """Everything that a step of another may not have changed."""
        copied = self.state.copy()
        settings = [value for group in self.optimizer.param_groups for value in group.values()]
        draws = [torch.rand(1), random.random(), np.random.random()]
        return [copied["parameters"], copied["buffers"], copied["state"], settings[1:], draws]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def assert_right(found: Recomputation) -> None:
    assert (found.error, found.doubt) == (None, "")
    assert found.loss == pytest.approx(found.recorded_loss, rel=1e-5)
    assert max(found.gradient_errors) < ROUNDING
    assert (found.step_error < STEP_TOLERANCE, found.state_error < STATE_TOLERANCE) == (True, True)
    assert found.buffer_error == 0.0


def test_the_step_of_another_comes_out_the_same_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Whatever it draws, as for dropout, and however far it has come; a loss of its own makes no difference."""
    sample = Loop(seed=1).record(tmp_path)
    mine, untouched = Loop(seed=2), Loop(seed=2)
    seed_all()
    assert_right(mine.retake(sample, loss=lambda logits, targets: functional.cross_entropy(logits, targets)))
    mine.step(mine.draw())
    after = mine.all()
    seed_all()
    untouched.step(untouched.draw())
    assert same(after, untouched.all())


def seed_all() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)


def freeze(loop: Loop) -> None:
    loop.model[0].weight.grad.zero_()


def halve(loop: Loop) -> None:
    for parameter in loop.model.parameters():
        parameter.grad = parameter.grad.bfloat16().float()


@pytest.mark.parametrize(("cheat", "says"), [(freeze, 0.05), (halve, 1e-4)])
def test_another_gradient_shows(cheat: Callable[[Loop], None], says: float, tmp_path: Path) -> None:
    found = Loop(seed=2).retake(Loop(seed=1).record(tmp_path, cheat))
    assert found.gradient_error > says
    assert max(found.gradient_errors) > ROUNDING
    assert found.step_error < STEP_TOLERANCE, "the optimizer did with them what it should"


def test_another_loss_shows(tmp_path: Path) -> None:
    found = Loop(seed=2).retake(
        Loop(seed=1).record(tmp_path), loss=lambda logits, targets: functional.cross_entropy(logits[::2], targets[::2])
    )
    assert found.doubt == ""
    assert abs(found.loss - found.recorded_loss) > 1e-3


def test_a_loop_that_loads_ahead_proves_nothing_unless_its_loss_is_seen(tmp_path: Path) -> None:
    """It gets a batch of its own once more, and the recorded pictures as they enter the model."""
    sample = Loop(seed=1).record(tmp_path)
    unseen = Loop(seed=2).retake(sample, is_plain=False)
    assert unseen.doubt == "the targets of its loss could not be handed over"


@pytest.mark.parametrize("share", ["items", "ranks"])
def test_a_step_that_ranks_took_together_is_taken_by_one(share: str, tmp_path: Path) -> None:
    """Whether they weight by items or by ranks; and the share of one alone is found out."""
    ranks = [Loop(seed=1, kind=SGD, dropout=0.0) for _ in range(2)]
    batches = [ranks[0].draw(3), ranks[0].draw(2)]
    samples = []
    gradients: list[list[torch.Tensor]] = []
    for rank, batch in zip(ranks, batches, strict=True):
        rank.model[1].eval()
        rank.optimizer.zero_grad()
        functional.cross_entropy(rank.model(batch[0]), batch[1]).backward()
        gradients.append([each.grad.clone() for each in rank.model.parameters()])
    weights = (0.6, 0.4) if share == "items" else (0.5, 0.5)
    mean = [sum(w * g for w, g in zip(weights, each, strict=True)) for each in zip(*gradients, strict=True)]

    def average(loop: Loop) -> None:
        for parameter, gradient in zip(loop.model.parameters(), mean, strict=True):
            parameter.grad = gradient.clone()

    for number, (rank, batch) in enumerate(zip(ranks, batches, strict=True)):
        (tmp_path / str(number)).mkdir()
        rank.draw = lambda items=5, batch=batch: batch  # type: ignore[method-assign]
        samples.append(rank.record(tmp_path / str(number), average))
    mine = Loop(seed=2, kind=SGD, dropout=0.0)
    mine.model[1].eval()
    found = mine.retake(*samples)
    assert (found.error, found.apart) == (None, 0.0)
    assert found.gradient_error < 1e-4
    assert found.loss == pytest.approx(found.recorded_loss, rel=1e-5)
    assert found.step_error < 1e-4
    assert mine.retake(samples[0]).gradient_error > 0.1


def records_of_two_ranks(folder: Path) -> list[Path]:
    """Record a step of two ranks that have come to the same parameters, and keep running means of their own."""
    ranks = [Loop(seed=1, dropout=0.0) for _ in range(2)]
    batches = [ranks[0].draw() for _ in ranks]
    both = [copy.deepcopy(ranks[0].model) for _ in ranks]
    losses = [
        functional.cross_entropy(model(inputs), targets) for model, (inputs, targets) in zip(both, batches, strict=True)
    ]
    shares = [torch.autograd.grad(loss, model.parameters()) for loss, model in zip(losses, both, strict=True)]  # type: ignore[arg-type]
    gradients = [sum(each) / 2 for each in zip(*shares, strict=True)]

    def average(loop: Loop) -> None:
        for parameter, gradient in zip(loop.model.parameters(), gradients, strict=True):
            parameter.grad = gradient.clone()  # type: ignore[union-attr]

    samples = []
    for number, (rank, batch) in enumerate(zip(ranks, batches, strict=True)):
        (folder / str(number)).mkdir()
        rank.draw = lambda items=5, batch=batch: batch  # type: ignore[method-assign]
        samples.append(rank.record(folder / str(number), average))
    return samples


def edit(sample: Path, change: Callable[[dict[str, Any]], None]) -> None:
    record = torch.load(sample, weights_only=True)
    change(record)
    torch.save(record, sample)


def test_each_rank_may_have_the_state_of_other_parameters(tmp_path: Path) -> None:
    samples = records_of_two_ranks(tmp_path)
    for rank, sample in enumerate(samples):

        def shard(record: dict[str, Any], rank: int = rank) -> None:
            for number in range(rank, 6, 2):
                record["before"]["state"][number] = {}
                record["after"][number] = {"parameter": record["after"][number]["parameter"]}

        edit(sample, shard)
    found = Loop(seed=2, dropout=0.0).retake(*samples)
    assert (found.error, found.apart) == (None, 0.0)
    assert (found.step_error < STEP_TOLERANCE, found.state_error < STATE_TOLERANCE) == (True, True)


@pytest.mark.parametrize(("place", "is_right"), [("", True), ("before", False), ("after", False)])
def test_buffers_of_each_rank_follow_from_its_share(place: str, is_right: bool, tmp_path: Path) -> None:
    samples = records_of_two_ranks(tmp_path)

    def other(record: dict[str, Any]) -> None:
        if place == "before":
            record["left"] = [each + 1 for each in record["left"]]
        if place == "after":
            record["buffers_after"] = [each + 1 for each in record["buffers_after"]]

    for sample in samples[1:] if place == "after" else samples:
        edit(sample, other)
    assert (Loop(seed=2, dropout=0.0).retake(*samples).buffer_error == 0) is is_right


def test_models_with_other_tensors_are_not_compared(tmp_path: Path) -> None:
    sample = Loop(seed=1).record(tmp_path)
    other = Loop(seed=2)
    other.state = TrainingState([nn.Linear(2, 2)], [])
    assert other.retake(sample).error == "the models have other parameters, and it is not clear which are which"


def test_a_batch_is_found_by_what_enters_the_model() -> None:
    """Also where others were loaded after it; what is gone by then is left out."""
    use = BatchUse()
    first, second = ({"x": torch.rand(2, 3), "y": [1, "two"]} for _ in range(2))
    for batch in (first, second):
        use.load(batch, in_training_thread=False)
    use.use(first["x"].clone())  # type: ignore[attr-defined]
    [leaves], _ = use.recorded()
    assert torch.equal(dict(leaves)["['x']"], first["x"])  # type: ignore[call-overload]
    assert (dict(leaves)["['y'][0]"], dict(leaves)["['y'][1]"]) == (1, "two")
    use.next_step()
    assert not use.is_plain
    use.use(second["x"])  # type: ignore[arg-type]
    use.next_step()
    assert use.is_plain


def test_a_tensor_is_loaded_if_it_is_of_a_batch_or_a_copy_of_one() -> None:
    use, batch = BatchUse(), [torch.rand(2, 3), torch.rand(2)]
    use.load(batch, in_training_thread=True)
    copied, other = batch[0].double(), torch.rand(2)
    use.copy(batch[0], copied)
    use.copy(other, other.double())
    assert [use.is_loaded(each) for each in (*batch, copied, other, batch[0].clone())] == [True] * 3 + [False] * 2


def test_an_optimizer_changes_none_of_a_recorded_state() -> None:
    """Each attempt begins with it."""
    loop = Loop(seed=0)
    recorded = loop.state.copy()["state"]
    before = copy.deepcopy(recorded)
    loop.state.load_state(recorded)
    loop.step(loop.draw())
    assert same(recorded, before)
    assert not same(loop.state.copy()["state"], before)
