"""The loop of a real script takes a step of another run of it, and comes to the same to the last bit."""

import gc
import runpy
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

import pytest
import torch
from torch import distributed

from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger
from workshop.judge.optimizer_proof import OptimizerReason
from workshop.judge.reasons import ReasonKind
from workshop.judge.step_proof import SampledSteps, StepReason, alike, differs, take_at_same_number
from workshop.judge.work_proof import WorkReason, check_progress, differences
from workshop.probe import recorded_step
from workshop.probe.connection import ClosedError, Connection
from workshop.probe.event_file import EventFile
from workshop.probe.evidence import EvidenceRecorder
from workshop.probe.messages import Proceed, Recomputation
from workshop.probe.settings import JudgedRun, ProbeConfig
from workshop.runs.script import run_folder

FOREIGN = Path(__file__).parents[1] / "foreign"

PATIENCE_S = 60.0


class InThisProcess(JudgedScript):
    """A script that runs in a thread of this process, where torch is loaded already: one at a time, never paused."""

    def begin(self, sample_step: int | None = None, steps: int | None = None) -> None:
        self.stop()
        torch.manual_seed(0)  # in a process of its own, a script begins with the same random numbers each time, too
        ours, theirs = socket.socketpair()
        self.judge = Connection(ours)
        config = ProbeConfig(str(self.folder), "", self.runs, JudgedRun(None, steps or self.epoch_steps, sample_step))
        self.recorder = EvidenceRecorder(config, Connection(theirs, _end_thread), EventFile(str(self.folder)))
        self.recorder.hooks.install()
        self.process: Any = Thread(target=self._run)
        self.process.start()
        self.runs += 1
        self.epochs_in_run = self.steps_in_run = 0

    def _run(self) -> None:
        with suppress(SystemExit):
            runpy.run_path(self.command[0])

    def send(self, message: object) -> None:
        self.judge.send(message)

    def receive(self) -> Any:
        while (message := self.judge.receive(1.0)) is None:
            assert self.process.is_alive()
        return message

    def signal(self, number: int) -> None:
        pass

    def pause_workers(self) -> None:
        pass

    def stop(self) -> None:
        if self.process is None:
            return
        self.judge.close()
        self.process.join(PATIENCE_S)
        assert not self.process.is_alive()
        self.process = None
        self.recorder.hooks.remove()
        self.recorder.epoch.steps = []  # or it would report them as this process ends
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _end_thread(_: ClosedError) -> NoReturn:
    raise SystemExit


@pytest.fixture(autouse=True)
def as_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests may have compiled something in this one, and have left much that is looked through for optimizers."""
    monkeypatch.setattr(recorded_step, "has_compiled", lambda: False)
    gc.freeze()
    yield
    gc.unfreeze()


def run(text: str, folder: Path, name: str, epoch_steps: int | None = None) -> InThisProcess:
    """Return a run of a script, with a folder of its own."""
    script = folder / f"{name}.py"
    script.write_text(BEGIN + text)
    return InThisProcess([str(script)], new(folder / name), epoch_steps=epoch_steps)


def new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def is_the_same(found: Recomputation) -> bool:
    """Whether a step was taken, and came to the same."""
    return (found.error, found.doubt) == (None, "") and not differs(found)


BEGIN = """
import math
import torch
from torch import nn
"""

WITHOUT_LOADER = """
torch.manual_seed(1)  # both runs have the same data
x, weights = torch.randn(500, 32), torch.randn(32, 4)
y = (x @ weights).sin()
net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 4))
optimizer = torch.optim.AdamW(net.parameters())
step = 0
while True:
    optimizer.param_groups[0]["lr"] = 1e-3 * min(1, (step + 1) / 100) * (0.5 + 0.5 * math.cos(step / 300))
    rows = torch.randint(len(x), (16,))
    loss = ((net(x[rows]) - y[rows]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    step += 1
"""
"""A loss of its own, and a learning rate that follows from a counter."""

CRITIC_FIRST = """
generator = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 64))
critic = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(), nn.Linear(32, 1))
of_generator, of_critic = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
loss = nn.BCEWithLogitsLoss()
loader = torch.utils.data.DataLoader(torch.randn(40, 64), 8, shuffle=True)
while True:
    for real in loader:
        one, zero = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        of_critic.zero_grad()
        loss(critic(real), one).backward()
        fake = generator(torch.randn(len(real), 16))
        loss(critic(fake.detach()), zero).backward()
        of_critic.step()
        of_generator.zero_grad()
        loss(critic(fake), one).backward()
        of_generator.step()
"""
"""The generator steps with what was computed before the critic stepped."""

PADDED = """
net = nn.Sequential(nn.Embedding(50, 8), nn.Dropout(0.2), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters())
words = [(torch.randint(50, (4 + number % 7,)), number % 2) for number in range(40)]

def collate(items):
    texts, targets = zip(*items)
    return nn.utils.rnn.pad_sequence(texts, batch_first=True), torch.tensor(targets)

loader = torch.utils.data.DataLoader(words, 4, shuffle=True, collate_fn=collate)
while True:
    for texts, targets in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(texts).mean(1), targets).backward()
        optimizer.step()
"""
"""Batches are of different lengths."""

JITTERED = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters())
torch.manual_seed(1)
x, y = torch.randn(40, 8), torch.arange(40) % 2

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(x)

    def __getitem__(self, index):
        return x[index] + 0.1 * torch.randn(8), y[index]

def step(rows, targets):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(rows), targets).backward()
    optimizer.step()

"""
LOADED = """
loader = torch.utils.data.DataLoader(Rows(), 4, shuffle=True)
while True:
    for rows, targets in loader:
        step(rows, targets)
"""
DRAWN_IN_THE_LOOP = """
while True:
    for rows in torch.randperm(len(x)).split(4):
        step(x[rows] + 0.1 * torch.randn(len(rows), 8), y[rows])
"""
COUNTED = """
number = 0
while True:
    for rows, targets in torch.utils.data.DataLoader(Rows(), 4, shuffle=True):
        optimizer.zero_grad()
        (nn.functional.cross_entropy(net(rows), targets) * (1 + number / 10)).backward()
        optimizer.step()
        number += 1
"""

TAUGHT = """
import copy
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
teacher = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
loader = torch.utils.data.DataLoader(torch.randn(40, 8), 4, shuffle=True)
while True:
    for x in loader:
        with torch.no_grad():
            wanted = teacher(x + 0.1 * torch.randn_like(x))
        optimizer.zero_grad()
        ((net(x) - wanted) ** 2).mean().backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), net.parameters()):
                slow.lerp_(fast, 0.1)
"""
"""An averaged copy of the model says what it should come to."""

AVERAGED = TAUGHT.replace("wanted = teacher(x + 0.1 * torch.randn_like(x))", "wanted = x[:, :4]").replace(
    "teacher", "average"
)
"""Nothing calls the average while it trains."""


CRITIC_OFTEN = """
generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))
critic = nn.Sequential(nn.Linear(6, 8), nn.Softplus(), nn.Linear(8, 1))
of_generator, of_critic = torch.optim.RMSprop(generator.parameters()), torch.optim.RMSprop(critic.parameters())
number = 0
while True:
    for real in torch.utils.data.DataLoader(torch.randn(60, 6), 4, shuffle=True):
        fake = generator(torch.randn(len(real), 4)).detach()
        loss = critic(fake).mean() - critic(real).mean()
        share = torch.rand(len(real), 1)
        between = (share * real + (1 - share) * fake).requires_grad_()
        [slope] = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        of_critic.zero_grad()
        (loss + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()).backward()
        of_critic.step()
        number += 1
        if number % 3 == 0:
            of_generator.zero_grad()
            (-critic(generator(torch.randn(len(real), 4))).mean()).backward()
            of_generator.step()
"""
"""The critic steps three times, each with a batch of its own, before the generator does."""

TWO_LOADERS = """
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
known = [(torch.randn(6), number % 3) for number in range(20)]
unknown = [(torch.randn(6), torch.randn(6)) for _ in range(40)]
while True:
    loaders = torch.utils.data.DataLoader(unknown, 4, shuffle=True), torch.utils.data.DataLoader(known, 2, shuffle=True)
    for (weak, strong), (x, y) in zip(*loaders):
        of_known, of_weak, of_strong = net(torch.cat([x, weak, strong])).split([len(x), len(weak), len(strong)])
        loss = nn.functional.cross_entropy(of_known, y)
        loss = loss + nn.functional.cross_entropy(of_strong, of_weak.detach().argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
"""What one DataLoader hands out is never handed out by the other, and enters the model joined with it."""

ACCUMULATED = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters())
data = torch.utils.data.TensorDataset(torch.randn(48, 8), torch.arange(48) % 2)
while True:
    for number, (x, y) in enumerate(torch.utils.data.DataLoader(data, 4, shuffle=True), 1):
        (nn.functional.cross_entropy(net(x), y) / 3).backward()
        if number % 3 == 0:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
"""
"""A step of the optimizer for every three batches."""

SPARSE = """
words, scale = nn.EmbeddingBag(50, 8, sparse=True), nn.Linear(8, 1)
net = nn.Sequential(words, scale)
optimizers = torch.optim.SparseAdam(words.parameters()), torch.optim.Adam(scale.parameters())
while True:
    for _ in range(12):
        loss = net(torch.randint(50, (4, 5))).square().mean()
        for each in optimizers:
            each.zero_grad()
        loss.backward()
        for each in optimizers:
            each.step()
"""
"""The gradient of an embedding is a sparse tensor, and must be."""

GRAPHS = """
from dataclasses import dataclass

@dataclass
class Graphs:
    x: torch.Tensor
    owner: torch.Tensor
    y: torch.Tensor

def collate(numbers):
    sizes = torch.tensor([3 + number % 5 for number in numbers])
    return Graphs(torch.randn(int(sizes.sum()), 4), torch.arange(len(sizes)).repeat_interleave(sizes), sizes.float())

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.nodes = nn.Linear(4, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, graphs):
        nodes = self.nodes(graphs.x).relu()
        return self.out(torch.zeros(len(graphs.y), 8).index_add(0, graphs.owner, nodes)).squeeze(1)

net = Net()
optimizer = torch.optim.Adamax(net.parameters())
while True:
    for graphs in torch.utils.data.DataLoader(range(40), 4, shuffle=True, collate_fn=collate):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(graphs), graphs.y).backward()
        optimizer.step()
"""
"""A batch is a dataclass, which enters the model as it is."""

NODES = """
torch.manual_seed(1)
features, links = torch.randn(40, 6), torch.randint(40, (40, 9))
labels = torch.arange(40) % 3

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.others, self.out = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, neighbours):
        return self.out((self.own(x) + self.others(neighbours.mean(1))).relu())

net = Net()
optimizer = torch.optim.Adam(net.parameters())
while True:
    for nodes in torch.utils.data.DataLoader(range(40), 4, shuffle=True):
        DRAW
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(features[nodes], features[drawn]), labels[nodes]).backward()
        optimizer.step()
"""
NODES_ONE_BY_ONE, NODES_AT_ONCE = (
    NODES.replace("DRAW", how)
    for how in (
        "drawn = torch.stack([links[node, torch.randint(9, (3,))] for node in nodes.tolist()])",
        "drawn = links[nodes[:, None], torch.randint(9, (len(nodes), 3))]",
    )
)
"""The loader hands out numbers of nodes; the loop gathers features, and draws neighbours."""

ASKED = """
teacher, net = nn.Linear(8, 4), nn.Linear(8, 4)
optimizer = torch.optim.AdamW(net.parameters())
while True:
    for x in torch.utils.data.DataLoader(torch.randn(40, 8), 4, shuffle=True):
        wanted = teacher(x).detach()
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), wanted).backward()
        optimizer.step()
"""
"""The first model that is called with gradients is never stepped."""

SHARDED = """
from torch import distributed
from torch.distributed.optim import ZeroRedundancyOptimizer
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
net = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-3)
while True:
    for x in torch.utils.data.DataLoader(torch.randn(40, 8), 4, shuffle=True):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
"""

JOINED = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.joined = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.joined(self.norm(x)).chunk(3, -1)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

net = nn.Sequential(nn.Linear(6, 8), Attention(), nn.Flatten(), nn.Linear(40, 3))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
torch.manual_seed(1)
data = torch.utils.data.TensorDataset(torch.randn(32, 5, 6), torch.arange(32) % 3)
while True:
    for x, y in torch.utils.data.DataLoader(data, 4, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
"""
APART = JOINED.replace(
    "self.joined = nn.Linear(8, 24)",
    "self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))\n"
    "        self.register_buffer('mask', torch.ones(5, 5).triu(1).bool())",
).replace("self.joined(self.norm(x)).chunk(3, -1)", "(each(self.norm(x)) for each in (self.q, self.k, self.v))")
APART = APART.replace(
    "nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
    "(q @ k.mT / 8**0.5).masked_fill(self.mask, -1e9).softmax(-1) @ v",
)
TURNED = JOINED.replace("nn.Linear(8, 24)", "Turned(8, 24)").replace("out = nn.Linear(8, 8)", "out = Turned(8, 8)")
TURNED = (
    """
class Turned(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias
"""
    + TURNED
)
"""One projection for query, key and value, or three, with a mask of their own; and matrices of the other order."""

SCALED = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", growth_interval=3)
torch.manual_seed(1)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.arange(64) % 2, torch.arange(64) % 16 == 0)
torch.manual_seed(SEED)
while True:
    for x, y, overflows in torch.utils.data.DataLoader(data, 4, shuffle=True):
        optimizer.zero_grad()
        with torch.autocast("cpu"):
            loss = nn.functional.cross_entropy(net(x), y)
        if overflows.any():
            loss = loss * torch.inf
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
FUSED = SCALED.replace("lr=1e-2", "lr=1e-2, fused=True")
UNSCALED = "scaler.unscale_(optimizer)\n        nn.utils.clip_grad_norm_(net.parameters(), 1)\n        scaler.step"
CLIPPED = SCALED.replace("scaler.step", UNSCALED)
"""A scaler leaves out the steps whose loss overflows, about one in four."""


SUMMED = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-9, growth_interval=3)
torch.manual_seed(1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(30, 8), torch.arange(30) % 2), 4, True)
torch.manual_seed(SEED)
while True:
    for number, (x, y) in enumerate(loader, 1):
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.cross_entropy(net(x), y) / 3
        scaler.scale(loss).backward()
        if number % 3 == 0 or number == len(loader):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
LEFT_OVER = SUMMED.replace(" or number == len(loader)", "")
COUNTED_ON = LEFT_OVER.replace("while", "count = 0\nwhile").replace("number % 3", "count % 3")
COUNTED_ON = COUNTED_ON.replace("        with", "        count += 1\n        with")
"""Steps of three batches, of eight in an epoch: one more at its end, or what is left over goes into the next step."""


LOOPS = {
    "critic-often": CRITIC_OFTEN,
    "two-loaders": TWO_LOADERS,
    "accumulated": ACCUMULATED,
    "sparse": SPARSE,
    "graphs": GRAPHS,
    "asked": ASKED,
    "nodes": NODES_ONE_BY_ONE,
    "sharded": SHARDED,
    "critic-first": CRITIC_FIRST,
    "without-loader": WITHOUT_LOADER,
    "padded": PADDED,
    "taught": TAUGHT,
    "several-models": (FOREIGN / "several_models.py").read_text(),
}


def assert_takes_steps_of(other: JudgedScript, one: JudgedScript) -> None:
    with other:
        other.epoch()
        steps = other.epoch_steps or 0
        samples = [other.epoch(Proceed(step)).sample for step in (1, steps - 1)]
    with one:
        one.epoch()
        for sample in samples:
            assert sample
            found = one.recompute(sample)
            assert found.error is None
            assert found.loss == pytest.approx(found.recorded_loss)
            assert (found.gradient_error, found.step_error, found.state_error, found.buffer_error) == (0, 0, 0, 0)
            one.epoch()
        assert len(Ledger.of(one.folder).optimizer_steps) == 3 * steps, "the steps of the other run are not its own"


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_a_loop_takes_a_step_of_another_run(text: str, tmp_path: Path) -> None:
    steps = None if "DataLoader" in text else 12
    assert_takes_steps_of(*(run(text, tmp_path, each, epoch_steps=steps) for each in ("other", "one")))


@pytest.mark.parametrize(
    ("name", "epoch_steps"),
    [
        pytest.param("iterable", 8, marks=pytest.mark.slow),
        pytest.param("accumulation", None, marks=pytest.mark.acceptance),
    ],
)
def test_a_loop_with_workers_takes_a_step_of_another_process(name: str, epoch_steps: int | None) -> None:
    command = [str(FOREIGN / f"{name}.py")]
    with run_folder() as other, run_folder() as one:  # of short names, as the sockets of workers are in them
        assert_takes_steps_of(*(JudgedScript(command, folder, epoch_steps=epoch_steps) for folder in (other, one)))


def retaken(new: str, old: str, folder: Path) -> tuple[Recomputation, Ledger, Ledger]:
    """What comes of a step of one script in the loop of another, and what both have noted."""
    with run(new, folder, "new") as new_run:
        new_run.epoch()
        sample = new_run.epoch(Proceed(3)).sample
    assert sample
    with run(old, folder, "old") as old_run:
        old_run.epoch()
        found = old_run.recompute(sample)
        return found, Ledger.of(new_run.folder), Ledger.of(old_run.folder)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (JOINED, APART),
        (APART, JOINED),
        (JOINED.replace("q, k, v = ", "v, q, k = "), APART),
        (TURNED, APART),
        (TURNED.replace("AdamW", "SGD"), JOINED.replace("AdamW", "SGD")),
    ],
    ids=["joined", "apart", "in-another-order", "turned-and-joined", "turned"],
)
def test_a_model_with_its_parameters_in_other_shapes_comes_to_the_same(new: str, old: str, tmp_path: Path) -> None:
    found, candidate, original = retaken(new, old, tmp_path)
    assert is_the_same(found), found
    assert found.is_mapped
    assert max(found.gradient_errors) < 20
    candidate.recomputed = [found]
    assert differences(original, candidate) == []


def retaken_scaled(new: str, old: str, folder: Path) -> tuple[Ledger, Ledger]:
    """What two scripts with a scaler have noted, and what comes of steps of the one in the other's loop."""
    with run(new.replace("SEED", "2"), folder, "new") as new_run:
        new_run.epoch()
        new_run.alike = alike(Ledger.of(new_run.folder).steps)
        samples = [new_run.epoch(Proceed(step)).sample for step in new_run.alike or range(2, 8)]
    candidate = Ledger.of(new_run.folder)
    with run(old.replace("SEED", "3"), folder, "old") as old_run:
        old_run.epoch()
        for sample in samples:
            old_run.epoch()
            assert sample
            candidate.recomputed.append(old_run.recompute(sample))
        return Ledger.of(old_run.folder), candidate


@pytest.mark.parametrize(
    ("new", "old"),
    [(SCALED, SCALED), (CLIPPED, CLIPPED), (FUSED, SCALED), (SCALED, FUSED)],
    ids=["plain", "clipped", "now-fused", "once-fused"],
)
def test_a_step_that_a_scaler_leaves_out_is_a_step(new: str, old: str, tmp_path: Path) -> None:
    original, candidate = retaken_scaled(new, old, tmp_path)
    assert len(candidate.steps) == 16 * (1 + len(candidate.recomputed))
    for ledger, text in (original, old), (candidate, new):
        skipped = [step.is_skipped for step in ledger.steps]
        idle = [len(step.still) == 4 for step in ledger.steps]
        assert 0.1 < sum(idle) / len(idle) < 0.5
        assert skipped == ([False] * len(idle) if text is FUSED else idle), "a fused optimizer leaves it out itself"
    assert not any(map(differs, candidate.recomputed))
    assert differences(original, candidate) == []


@pytest.mark.parametrize(
    ("text", "steps"), [(SUMMED, 3), (LEFT_OVER, 6), (COUNTED_ON, 8)], ids=["at-the-end", "left-over", "counted-on"]
)
def test_a_loop_whose_steps_take_three_of_eight_batches(text: str, steps: int, tmp_path: Path) -> None:
    original, candidate = retaken_scaled(text, text, tmp_path)
    assert len(candidate.steps) == steps * (1 + len(candidate.recomputed))
    assert {True, False} == {step.is_skipped for step in candidate.steps}
    assert all(map(is_the_same, candidate.recomputed)), candidate.recomputed
    assert differences(original, candidate) == []


LOADS_AHEAD = SUMMED.replace("enumerate(loader, 1)", "enumerate(ahead(loader), 1)")
LOADS_AHEAD = f"""
def ahead(loader):
    batches = iter(loader)
    coming = next(batches, None)
    while coming is not None:
        present, coming = coming, next(batches, None)
        yield present

{LOADS_AHEAD}"""


@pytest.mark.parametrize(("new", "old"), [(LOADS_AHEAD, SUMMED), (SUMMED, LOADS_AHEAD), (LOADS_AHEAD, LOADS_AHEAD)])
def test_a_loop_that_loads_ahead_goes_on_as_before(new: str, old: str, tmp_path: Path) -> None:
    """The batch that it trains on came in the step before, and it counts those of an epoch."""
    with run(new.replace("SEED", "2"), tmp_path, "new") as new_run:
        new_run.epoch()
        new_run.alike = alike(Ledger.of(new_run.folder).steps)
        samples = [new_run.epoch(Proceed(1)).sample for _ in range(2)]
    with run(old.replace("SEED", "3"), tmp_path, "old") as old_run:
        old_run.epoch()
        for sample in samples:
            old_run.epoch()
            assert sample
            assert is_the_same(old_run.recompute(Path(sample)))
        old_run.epoch()
    assert [len(step.forwards) for step in Ledger.of(old_run.folder).steps] == [3, 3, 2] * 4


def test_a_scale_that_grows_sooner_is_another_setting(tmp_path: Path) -> None:
    both = retaken_scaled(SUMMED.replace("growth_interval=3", "growth_interval=1"), SUMMED, tmp_path)
    assert [each.kind for each in differences(*both)] == [OptimizerReason.OTHER_SETTING]


def test_the_scale_is_the_scripts_own_after_steps_of_another(tmp_path: Path) -> None:
    """Each step that is left out halves it, those of others included."""
    text = SCALED.replace("SEED", "2").replace("overflows.any()", "True").replace("growth_interval=3", "init_scale=2e9")
    with run(text, tmp_path, "new") as new_run:
        new_run.epoch()
        sample = new_run.epoch(Proceed(2)).sample
    assert sample
    with run(text, tmp_path, "old") as old_run:
        old_run.epoch()
        for _ in range(5):
            assert is_the_same(old_run.recompute(sample))
        old_run.epoch()
        [scale] = old_run.recorder.hooks.scalers.states()
    assert scale["scale"] == 2e9 / 2**31, "the last step has not been followed by an update yet"


def test_who_leaves_out_more_steps_than_the_original_would_is_refused(tmp_path: Path) -> None:
    cheat = SCALED.replace("overflows.any()", "torch.rand(()) < 0.6")
    original, candidate = retaken_scaled(cheat, SCALED, tmp_path)
    assert [each.kind for each in check_progress(original, candidate)] == [WorkReason.PARAMETERS_STILL]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("y).backward", "y).mul(1.1).backward"), StepReason.IN_DOUBT),
        (("AdamW(net.parameters()", "Adafactor(net.parameters()"), StepReason.NOT_TAKEN),
        (("nn.Linear(6, 8)", "nn.Linear(6, 8, bias=False)"), WorkReason.OTHER_MODEL),
    ],
)
def test_where_such_a_model_comes_to_something_else_that_is_no_proof(
    change: tuple[str, str], said: ReasonKind, tmp_path: Path
) -> None:
    old = APART if "Adafactor" not in change[1] else APART.replace(*change)
    found, candidate, original = retaken(JOINED.replace(*change), old, tmp_path)
    candidate.recomputed = [found]
    assert [each.kind for each in differences(original, candidate)] == [said]


def test_a_loop_whose_next_batch_is_smaller_takes_a_step_with_a_larger_one(tmp_path: Path) -> None:
    """The targets are handed over with the inputs, or neither are: the loop must not break."""
    text = (JITTERED + DRAWN_IN_THE_LOOP).replace("range(40)", "range(41)").replace("(40", "(41")
    with run(text, tmp_path, "other", epoch_steps=5) as other:
        other.epoch()
        sample = other.epoch(Proceed(2)).sample
    assert sample
    with run(text, tmp_path, "one", epoch_steps=10) as one:
        one.epoch()
        found = one.recompute(sample)
    assert found.error is None
    assert found.doubt or not differs(found)


def test_a_step_is_taken_after_the_very_first_one(tmp_path: Path) -> None:
    """What the critic's first step has left is still to be used by the generator's, which was not seen yet."""
    with run(CRITIC_FIRST, tmp_path, "other", epoch_steps=5) as other:
        other.epoch()
        sample = other.epoch(Proceed(2)).sample
    assert sample
    with run(CRITIC_FIRST, tmp_path, "one", epoch_steps=1) as one:
        one.epoch()
        assert is_the_same(one.recompute(sample))


def test_what_another_script_draws_before_it_calls_the_model_changes_nothing(tmp_path: Path) -> None:
    """It draws in its loop what the original draws while it loads; the dropout is the same."""
    with run(JITTERED + DRAWN_IN_THE_LOOP, tmp_path, "new", epoch_steps=10) as new_run:
        new_run.epoch()
        sample = new_run.epoch(Proceed(3)).sample
    assert sample
    with run(JITTERED + LOADED, tmp_path, "old") as old_run:
        old_run.epoch()
        found = old_run.recompute(sample)
    assert (found.error, found.doubt) == (None, "")
    assert found.loss == pytest.approx(found.recorded_loss)
    assert max(found.gradient_errors) < 20


def test_neighbours_may_be_drawn_at_once(tmp_path: Path) -> None:
    found, candidate, original = retaken(NODES_AT_ONCE, NODES_ONE_BY_ONE, tmp_path)
    assert is_the_same(found), found
    candidate.recomputed = [found]
    assert differences(original, candidate) == []


@pytest.mark.parametrize(("text", "copied"), [(TAUGHT, 0), (AVERAGED, 4)], ids=["taught", "averaged"])
@pytest.mark.parametrize("follows", [0.1, 0.01])
def test_what_is_done_after_the_optimizers_step_belongs_to_it(
    text: str, copied: int, follows: float, tmp_path: Path
) -> None:
    with run(text.replace("fast, 0.1", f"fast, {follows}"), tmp_path, "other", epoch_steps=10) as other:
        other.epoch()
        sample = other.epoch(Proceed(3)).sample
    assert sample
    with run(text, tmp_path, "one", epoch_steps=10) as one:
        for _ in range(2):
            one.epoch()
        found = one.recompute(sample)
    assert (found.error, found.doubt, found.copied) == (None, "", copied)
    assert is_the_same(found) is (follows == 0.1)


def test_a_loop_that_counts_takes_a_step_as_its_own_of_the_same_number(tmp_path: Path) -> None:
    text, samples = JITTERED + COUNTED, SampledSteps()
    with run(text, tmp_path, "other", epoch_steps=10) as other:
        for _ in range(3):
            other.epoch()
        recorded = other.epoch(Proceed(5))
        assert recorded.sample
        assert recorded.report.sampled_step in range(5, 10)
        number = recorded.first_step + recorded.report.sampled_step
        for step in 7, 8:
            samples.add([other.epoch(Proceed(step))])
    with run(text, tmp_path, "one", epoch_steps=10) as one:
        one.epoch()
        assert differs(one.recompute(recorded.sample)), "as another step of its own"
        one.epoch(Proceed(steps=number - one.steps_in_run))
        found = one.recompute(recorded.sample)
        assert is_the_same(found)
        assert found.loss == pytest.approx(found.recorded_loss)
        samples.take(one)  # each is taken more than once, which counts, too
        assert samples.unsettled == samples.steps
    with run(text, tmp_path, "third") as third:
        take_at_same_number(third, [samples], lambda steps: True)
    assert all(map(is_the_same, samples.results))
