"""Training loops of many kinds, as the text of scripts; those without a name of their own are parts of others."""

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

LOADS_AHEAD = SUMMED.replace("enumerate(loader, 1)", "enumerate(ahead(loader), 1)")
LOADS_AHEAD = f"""
def ahead(loader):
    batches = iter(loader)
    coming = next(batches, None)
    while coming is not None:
        present, coming = coming, next(batches, None)
        yield present

{LOADS_AHEAD}"""
