"""Semi-supervised node classification on a citation graph with a three-layer GCN."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
rng = np.random.default_rng(7)

NUM_NODES = 3400
NUM_CLASSES = 7
NUM_WORDS = 300
HIDDEN = 128
EPOCHS = 20000

# ---------------------------------------------------------------- data
labels_np = rng.integers(0, NUM_CLASSES, NUM_NODES)
by_class = [np.flatnonzero(labels_np == c) for c in range(NUM_CLASSES)]

sources, targets = [], []
for paper in range(NUM_NODES):
    for _ in range(4):
        if rng.random() < 0.8:
            pool = by_class[labels_np[paper]]
            cited = pool[rng.integers(len(pool))]
        else:
            cited = rng.integers(NUM_NODES)
        sources.append(paper)
        targets.append(cited)
sources, targets = np.array(sources), np.array(targets)

topics = rng.random((NUM_CLASSES, NUM_WORDS)) ** 6
words = (rng.random((NUM_NODES, NUM_WORDS)) < 0.05 * topics[labels_np]).astype(np.float32)
words /= np.maximum(words.sum(1, keepdims=True), 1.0)

graph = np.zeros((NUM_NODES, NUM_NODES), dtype=np.float32)
graph[sources, targets] = 1.0
graph = np.maximum(graph, graph.T)
np.fill_diagonal(graph, 1.0)
inv_sqrt = 1.0 / np.sqrt(graph.sum(1))
graph = inv_sqrt[:, None] * graph * inv_sqrt[None, :]

adj = torch.from_numpy(graph).to_sparse_csr()
features = torch.from_numpy(words)
labels = torch.from_numpy(labels_np)

order = torch.randperm(NUM_NODES)
train_idx, val_idx, test_idx = order[:600], order[600:1200], order[1200:]


# ---------------------------------------------------------------- model
class GraphConv(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.lin = nn.Linear(fan_in, fan_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(fan_out))

    def forward(self, x, adj):
        return adj @ self.lin(x) + self.bias


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GraphConv(NUM_WORDS, HIDDEN)
        self.conv2 = GraphConv(HIDDEN, HIDDEN)
        self.conv3 = GraphConv(HIDDEN, NUM_CLASSES)
        self.norm = nn.LayerNorm(HIDDEN)
        self.drop = nn.Dropout(0.4)

    def forward(self, x, adj):
        x = F.relu(self.conv1(x, adj))
        x = x + F.relu(self.conv2(self.drop(self.norm(x)), adj))
        return self.conv3(self.drop(x), adj)


model = GCN()
opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)

# ---------------------------------------------------------------- training
best_val = 0.0
for epoch in range(EPOCHS):
    model.train()
    opt.zero_grad()
    out = model(features, adj)
    loss = F.cross_entropy(out[train_idx], labels[train_idx], label_smoothing=0.05)
    loss.backward()
    opt.step()
    sched.step()

    val_acc = float("nan")
    if epoch % 25 == 24:
        model.eval()
        with torch.no_grad():
            pred = model(features, adj).argmax(1)
        val_acc = (pred[val_idx] == labels[val_idx]).float().mean().item()
        best_val = max(best_val, val_acc)
    print(f"epoch {epoch:05d}  loss {loss.item():.4f}  val {val_acc:.3f}  best {best_val:.3f}", flush=True)
