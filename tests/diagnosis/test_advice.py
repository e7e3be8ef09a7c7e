"""What `measure` advises, done literally in a script of its kind: the training is the same, or the advice says not."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch

from workshop.diagnosis.call_words import (
    AGAIN_BY_ROW,
    ARRAYS,
    COPIES,
    GOES_ON,
    KEPT,
    LARGE_INTERMEDIATE,
    LONGER,
    ON_NUMBERS,
    SAME_AGAIN,
    SHRINKS,
    TINY_OPERATORS,
    WRITES,
)
from workshop.diagnosis.causes.data_wait import COLLATES, DRAWS, NO_DRAWS, SINGLE_ITEMS, SLOW_COLLATE, SLOW_ITEM
from workshop.diagnosis.causes.other_work import OWN_WORK
from workshop.probe.cause import Cause
from workshop.probe.trials import tried_causes

SCRIPT = """
import gc
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset
torch.manual_seed(0)
"""


@dataclass(frozen=True)
class Advice:
    """A script, what is changed in it literally as it is advised, and what becomes of the parameters."""

    script: str
    changes: dict[str, str]
    same: bool = True
    """Whether they are the same but for rounding."""
    says: str = ""
    """A piece of what is said of that."""


LOOP = """
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = TensorDataset(torch.randn(24, 6), torch.randint(0, 3, (24,)))
loader = DataLoader(data, batch_size=4, shuffle=True)
for x, y in loader:
    loss = functional.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
"""

ACTOR = """
model, critic = nn.Linear(6, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer, of_critic = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(5, 6)
    acted = model(x)
    of_critic.zero_grad()
    critic(acted.detach()).square().mean().backward()
    of_critic.step()
    optimizer.zero_grad()
    score = critic(acted)
    score.mean().backward()
    optimizer.step()
"""

GAN = """
model, critic = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), nn.Linear(4, 1)
optimizer, of_critic = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(6):
    fake = model(torch.randn(5, 6))
    of_critic.zero_grad()
    critic(fake).square().mean().backward(retain_graph=True)
    of_critic.step()
    optimizer.zero_grad()
    critic(fake).mean().backward()
    optimizer.step()
"""

TWO_LOSSES = """
model, heads = nn.Linear(6, 8), nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])
optimizer = torch.optim.SGD([*model.parameters(), *heads.parameters()], lr=0.1)
for _ in range(6):
    inner = model(torch.randn(5, 6))
    optimizer.zero_grad()
    one, other = heads[0](inner).mean(), heads[1](inner).square().mean()
    one.backward(retain_graph=True)
    other.backward()
    optimizer.step()
"""

TEACHER = """
model, teacher = nn.Linear(6, 3), nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(5, 6)
    taught = teacher(x).detach()
    loss = functional.mse_loss(model(x), taught)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

METRIC = """
model, right = nn.Linear(6, 3), 0
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    x, y = torch.randn(5, 6), torch.randint(0, 3, (5,))
    scores = model(x)
    loss = functional.cross_entropy(scores, y)
    right += (model(x).argmax(1) == y).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

WORDS = """
model = nn.ModuleDict({"words": nn.Embedding(50, 4), "last": nn.Linear(4, 50)})
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(6):
    x, y = torch.randint(0, 50, (3, 7)), torch.randint(0, 50, (3, 7))
    y[:, 2:] = -100
    inner = model["words"](x)
    scores, targets = model["last"](inner).flatten(0, 1), y.flatten()
    loss = functional.cross_entropy(scores, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

ITEMS = """
class Noisy(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return self.read(index)
    def read(self, index):
        return torch.full((6,), float(index)), index % 3
kept = {}
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in [*DataLoader(Noisy(), 4), *DataLoader(Noisy(), 4)]:
    optimizer.zero_grad()
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
ATTENTION = """
model = nn.Linear(6, 18)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    q, k, v = model(torch.randn(2, 5, 6)).chunk(3, -1)
    mixed = (q @ k.mT / 6**0.5).softmax(-1) @ v
    optimizer.zero_grad()
    mixed.square().mean().backward()
    optimizer.step()
"""

KEEPS = {"return self.read(index)": "return kept.setdefault(index, self.read(index))"}

PLACES = """
model, places = nn.Linear(8, 3), torch.randn(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    near = torch.cdist(places, places)
    x = torch.randn(5, 8) @ near
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
ONCE = {
    "    near = torch.cdist(places, places)\n": "",
    "for _ in range(6):\n": "near = torch.cdist(places, places)\nfor _ in range(6):\n",
}
IN_PLACE = PLACES.replace("@ near", "@ near.mul_(0.5)")

ROWS = """
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    x, made = torch.randn(5, 6), []
    for i in range(5):
        made.append(model(x[i]))
    optimizer.zero_grad()
    torch.stack(made).square().mean().backward()
    optimizer.step()
"""
FOR_ALL = {"    for i in range(5):\n        made.append(model(x[i]))\n": "    made = [model(x)]\n"}
IN_ANY_ORDER = {old.replace("model(x[i])", "model(x[i] + sum(made[-1:]))"): new for old, new in FOR_ALL.items()}
IN_TURN = ROWS.replace("model(x[i])", "model(x[i] + sum(made[-1:]))")

SERIES_OF = """
model = nn.LSTM(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    x, made, state = torch.randn(5, 2, 6), [], None
    for t in range(5):
        out, state = model(x[t : t + 1], state)
        made.append(out)
    optimizer.zero_grad()
    torch.cat(made).square().mean().backward()
    optimizer.step()
"""
WHOLE_SERIES = {
    "    for t in range(5):\n        out, state = model(x[t : t + 1], state)\n        made.append(out)\n": ""
    "    made = [model(x)[0]]\n"
}

MEMORY = """
model, memory = nn.Linear(6, 3), torch.zeros(0, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    made = model(torch.randn(5, 6))
    memory = torch.cat([memory, made.detach()])
    optimizer.zero_grad()
    made.square().mean().backward()
    optimizer.step()
    if step % 3 == 2:
        model.bias.data += memory.mean(0)
"""
JOINED_ONCE = {
    "torch.zeros(0, 3)": "[]",
    "memory = torch.cat([memory, made.detach()])": "memory.append(made.detach())",
    "memory.mean(0)": "torch.cat(memory).mean(0)",
}

POSITIONS = """
model = nn.ModuleDict({"inner": nn.GRU(6, 8, batch_first=True), "last": nn.Linear(8, 40)})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    inner = model["inner"](torch.randn(4, 7, 6))[0]
    scores = model["last"](inner)
    last = scores[:, -1]
    optimizer.zero_grad()
    last.square().mean().backward()
    optimizer.step()
"""
CHOSEN_FIRST = {'model["last"](inner)\n': 'model["last"](inner[:, -1:])\n'}

NORM = """
model, norms = nn.Linear(6, 3), []
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(5, 6)).square().mean().backward()
    norm = sum(value * value for value in model.weight.grad.flatten().tolist()) ** 0.5
    model.weight.grad /= max(norm, 1.0)
    optimizer.step()
"""
BY_OPERATORS = {
    "sum(value * value for value in model.weight.grad.flatten().tolist()) ** 0.5": "model.weight.grad.norm()"
}

PAIRS = """
model = nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    z = model(torch.randn(9, 6))
    apart = z[:, None] - z
    far = apart.square().sum(-1).add(1e-6).sqrt()
    optimizer.zero_grad()
    far.mean().backward()
    optimizer.step()
"""
BY_CDIST = {
    "    apart = z[:, None] - z\n": "",
    "apart.square().sum(-1).add(1e-6).sqrt()": "torch.cdist(z, z).square().add(1e-6).sqrt()",
}

DECODER = """
model = nn.GRU(4, 4, batch_first=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    state, made = torch.randn(1, 3, 4), torch.zeros(3, 1, 4)
    last, going = made, state
    for _ in range(5):
        out, going = model(made, state)
        made = torch.cat([made, out[:, -1:]], 1)
    optimizer.zero_grad()
    made.square().mean().backward()
    optimizer.step()
"""
FROM_STATE = {"out, going = model(made, state)": "out, going = model(made[:, -1:], going)"}

REPLAY = """
model, memory = nn.Linear(4, 3), [torch.randn(4) for _ in range(50)]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    chosen = torch.randint(0, 50, (5,))
    states = torch.stack(memory)[chosen]
    optimizer.zero_grad()
    model(states).square().mean().backward()
    optimizer.step()
"""
PART_FIRST = {"torch.stack(memory)[chosen]": "torch.stack([memory[each] for each in chosen])"}

PROMPTS = """
model, encoder, prompts = nn.Linear(4, 3), nn.Linear(6, 4).requires_grad_(False), torch.randn(3, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    labels = torch.randint(0, 3, (12,))
    encoded = encoder(prompts[labels])
    optimizer.zero_grad()
    model(encoded).square().mean().backward()
    optimizer.step()
"""
EACH_ONCE = {"encoder(prompts[labels])": "encoder(prompts)[labels]"}

JOINS = """
def joined(items):
    return torch.stack([x / 3.0 for x, _ in items]), torch.tensor([y for _, y in items])
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(24, 6), torch.randint(0, 3, (24,)))
for x, y in DataLoader(data, 4, collate_fn=joined):
    optimizer.zero_grad()
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

DETACHED = {"critic(fake).square()": "critic(fake.detach()).square()", "backward(retain_graph=True)": "backward()"}
FROZEN = {
    "    score = critic(acted)\n": "    critic.requires_grad_(False)\n    score = critic(acted)\n"
    "    critic.requires_grad_(True)\n"
}
PICKED = {
    'scores, targets = model["last"](inner).flatten(0, 1), y.flatten()': "counts = y.flatten() != -100\n"
    '    scores, targets = model["last"](inner.flatten(0, 1)[counts]), y.flatten()[counts]'
}
AT_ONCE = {
    "DataLoader(data, batch_size=4, shuffle=True)": "DataLoader(data, batch_size=None, "
    "sampler=BatchSampler(RandomSampler(data), 4, drop_last=False))"
}
SPARSE = {
    "nn.Embedding(50, 4)": "nn.Embedding(50, 4, sparse=True)",
    "optimizer = torch.optim.Adam(model.parameters(), lr=0.1)": "optimizer = torch.optim.Adam("
    'model["last"].parameters(), lr=0.1)\nof_words = torch.optim.SparseAdam(model["words"].parameters(), lr=0.1)',
    "    optimizer.zero_grad()": "    optimizer.zero_grad(), of_words.zero_grad()",
    "    optimizer.step()": "    optimizer.step(), of_words.step()",
}
DOUBLE = LOOP.replace("data = ", "model.double()\ndata = ").replace("(x)", "(x.double())")

RECALLED = """
import numpy
rows = [numpy.random.default_rng(each).random(6, dtype=numpy.float32) for each in range(24)]
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    states = tuple(rows[4 * step : 4 * step + 4])
    optimizer.zero_grad()
    model(torch.tensor(states)).square().mean().backward()
    optimizer.step()
"""
SAVED = "    torch.save(model.state_dict(), io.BytesIO())\n"
MEASURED = "    seen.append(loss.item())\n    worst = max(seen)\n"

TAKEN: dict[str, Advice] = {
    "unused-gradients": Advice(GAN, DETACHED),
    "unused-gradients, leads on": Advice(ACTOR, FROZEN),
    "graph-twice": Advice(
        TWO_LOSSES, {"    one.backward(retain_graph=True)\n": "", "other.backward()": "(one + other).backward()"}
    ),
    "unused-graph": Advice(TEACHER, {"    taught = ": "    with torch.no_grad():\n        taught = "}),
    "repeated-call": Advice(METRIC, {"(model(x).argmax": "(scores.argmax"}),
    "same-again": Advice(PLACES, ONCE),
    "same-again, in place": Advice(IN_PLACE, ONCE, same=False, says="changed in place"),
    "tiny-operators": Advice(ROWS, FOR_ALL),
    "tiny-operators, in turn": Advice(IN_TURN, IN_ANY_ORDER, same=False, says="what the one before has made"),
    "tiny-operators, series": Advice(SERIES_OF, WHOLE_SERIES),
    "ignored-targets": Advice(WORDS, PICKED),
    "dense-embedding": Advice(WORDS, SPARSE, same=False, says="the results differ"),
    "set-to-none": Advice(LOOP, {"set_to_none=False": ""}),
    "fused-optimizer": Advice(LOOP, {"momentum=0.9": "momentum=0.9, fused=True"}),
    "foreach-optimizer": Advice(LOOP, {"momentum=0.9": "momentum=0.9, foreach=True"}),
    "bfloat16": Advice(
        LOOP,
        {"    loss = ": '    with torch.autocast("cpu", torch.bfloat16):\n        loss = '},
        same=False,
        says="how well it learns",
    ),
    "float64": Advice(DOUBLE, {"model.double()": "", "(x.double())": "(x)"}, says="7 digits"),
    "attention-by-hand": Advice(
        ATTENTION, {"(q @ k.mT / 6**0.5).softmax(-1) @ v": "functional.scaled_dot_product_attention(q, k, v)"}
    ),
    "merged-groups": Advice(
        LOOP.replace("SGD(model.parameters()", "SGD([{'params': [each]} for each in model.parameters()]"),
        {"[{'params': [each]} for each in model.parameters()]": "model.parameters()"},
    ),
    "garbage-collector": Advice(
        LOOP + "    gc.collect()\n", {"    gc.collect()\n": "    gc.get_freeze_count() or gc.freeze()\ngc.unfreeze()\n"}
    ),
    "single-items": Advice(LOOP, AT_ONCE),
    "arrays": Advice(RECALLED, {"torch.tensor(states)": "torch.from_numpy(numpy.stack(states))"}),
    "writes": Advice(
        "import io" + LOOP + SAVED,
        {SAVED: "torch.save(model.state_dict(), io.BytesIO())\n"},
        says="Written less often, less is kept",
    ),
    "longer": Advice(
        "seen = []" + LOOP + MEASURED,
        {"    worst = max(seen)": "worst = max(seen)"},
        says="do that once in the end",
    ),
    "copies": Advice(MEMORY, JOINED_ONCE),
    "shrinks": Advice(REPLAY, PART_FIRST, says="take the part first"),
    "kept": Advice(POSITIONS, CHOSEN_FIRST, says="where each row is computed by itself"),
    "on-numbers": Advice(NORM, BY_OPERATORS),
    "growing-input": Advice(DECODER, FROM_STATE, says="where a layer can go on from a state"),
    "rows again": Advice(PROMPTS, EACH_ONCE, says="Where each row is computed by itself"),
    "large-intermediate": Advice(PAIRS, BY_CDIST, says="where another operator gives the same"),
    "collates": Advice(JOINS, {"torch.stack([x / 3.0 for x, _ in items])": "torch.stack([x for x, _ in items]) / 3.0"}),
    "no-draws": Advice(ITEMS, KEEPS, says="where it makes the same of an item in each epoch"),
    "draws": Advice(
        ITEMS.replace("float(index))", "float(index)) + torch.rand(6)"), KEEPS, same=False, says="cannot be kept"
    ),
    "slow-item": Advice(ITEMS, KEEPS),
    "slow-item, random": Advice(
        ITEMS.replace("float(index))", "float(index)) + torch.rand(6)"), KEEPS, same=False, says="no random numbers"
    ),
}
"""What is advised for each cause that names an edit."""


NOT_TRIED = (SLOW_ITEM, SLOW_COLLATE, SINGLE_ITEMS, SAME_AGAIN, TINY_OPERATORS, LARGE_INTERMEDIATE, GOES_ON, OWN_WORK)
SENTENCES = {
    "copies": COPIES,
    "kept": KEPT,
    "shrinks": SHRINKS,
    "collates": COLLATES,
    "arrays": ARRAYS,
    "writes": WRITES,
    "longer": LONGER,
    "no-draws": NO_DRAWS,
    "draws": DRAWS,
    "rows again": AGAIN_BY_ROW,
}
PARTS = {name: Cause(name, words) for name, words in SENTENCES.items()} | {"on-numbers": ON_NUMBERS}
"""Sentences that are added to the words of a cause, or take their place."""


def trained(script: str) -> list[torch.Tensor]:
    """The parameters that a script leaves."""
    values: dict[str, Any] = {}
    exec(compile(SCRIPT + script, "script", "exec"), values)
    return [each.detach().double() for each in values["model"].parameters()]


def changed(script: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert script.count(old) >= 1, old
        script = script.replace(old, new)
    return script


@pytest.mark.parametrize("name", TAKEN)
def test_advice_taken_literally(name: str) -> None:
    advice = TAKEN[name]
    cause = name.partition(",")[0]
    before, after = trained(advice.script), trained(changed(advice.script, advice.changes))
    is_same = partial(torch.allclose, rtol=1e-5, atol=1e-6)
    assert all(map(is_same, before, after)) == advice.same
    causes = tried_causes() | {each.name: each for each in NOT_TRIED} | PARTS
    about_results = getattr(causes[cause], "other_results", {}).values()
    assert any(advice.says in each for each in (causes[cause].words, *about_results))


@pytest.mark.parametrize(
    ("script", "changes"),
    [
        (ACTOR, {"score = critic(acted)": "score = critic(acted).detach().requires_grad_()"}),
        (GAN, {"    fake = ": "    with torch.no_grad():\n        fake = "}),
    ],
)
def test_what_is_not_advised_would_cut_the_training_off(script: str, changes: dict[str, str]) -> None:
    """To detach what an actor learns through, or to make without gradients what another pass goes through."""
    try:
        after = trained(changed(script, changes))
    except RuntimeError:
        return
    assert not all(map(torch.allclose, trained(script), after))
