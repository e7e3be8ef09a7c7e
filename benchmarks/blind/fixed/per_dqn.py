"""Double DQN with prioritised replay on a vectorised point-chasing task."""

import copy
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STATE_DIM, N_ACTIONS = 8, 9
MOVES = np.array([(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)], dtype=np.float32)


class ChaseEnv:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.state = rng.normal(size=(n, STATE_DIM)).astype(np.float32)

    def step(self, action):
        s = self.state.copy()
        s[:, 2:4] = 0.9 * s[:, 2:4] + 0.1 * MOVES[action]
        s[:, 0:2] += 0.2 * s[:, 2:4]
        dist = np.linalg.norm(s[:, 0:2] - s[:, 4:6], axis=1)
        done = dist < 0.2
        reward = (-0.1 * dist + done).astype(np.float32)
        s_next = s.copy()
        s[done] = self.rng.normal(size=(int(done.sum()), STATE_DIM))
        prev, self.state = self.state, s
        return prev, reward, s_next, done.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, capacity, alpha=0.6, rng=None):
        self.capacity, self.alpha, self.rng = capacity, alpha, rng
        self.obs = np.zeros((capacity, STATE_DIM), np.float32)
        self.next_obs = np.zeros((capacity, STATE_DIM), np.float32)
        self.act = np.zeros(capacity, np.int64)
        self.rew = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.priorities = np.zeros(capacity)
        self.pos, self.max_priority = 0, 1.0

    def add(self, s, a, r, s2, d):
        idx = (self.pos + np.arange(len(a))) % self.capacity
        self.obs[idx], self.act[idx], self.rew[idx] = s, a, r
        self.next_obs[idx], self.done[idx] = s2, d
        for i in idx:
            self.priorities[i] = self.max_priority
        self.pos = int(idx[-1] + 1) % self.capacity

    def sample(self, n, beta):
        probs = self.priorities**self.alpha
        cdf = np.cumsum(probs)
        idx = np.searchsorted(cdf, self.rng.random(n) * cdf[-1])
        w = (self.capacity * probs[idx] / cdf[-1]) ** -beta
        batch = (self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx], self.done[idx], w / w.max())
        return idx, [torch.as_tensor(x) for x in batch]

    def update(self, idx, td):
        for i, p in zip(idx, np.abs(td) + 1e-5):
            self.priorities[i] = float(p)
        self.max_priority = max(self.max_priority, float(np.abs(td).max()))


def q_net(hidden=256):
    return nn.Sequential(
        nn.Linear(STATE_DIM, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, N_ACTIONS),
    )


def main(epochs=1000, updates=200, batch=256, gamma=0.98, tau=0.01, capacity=100_000):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env, memory = ChaseEnv(64, rng), PrioritizedReplay(capacity, rng=rng)
    net = q_net()
    target = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4)
    returns = deque(maxlen=200)
    while memory.pos + env.n < capacity:
        a = rng.integers(0, N_ACTIONS, env.n)
        s, r, s2, d = env.step(a)
        memory.add(s, a, r, s2, d)

    for epoch in range(epochs):
        t0, eps, losses = time.time(), max(0.05, 1 - epoch / 50), 0.0
        for _ in range(updates):
            with torch.no_grad():
                a = net(torch.from_numpy(env.state)).argmax(1).numpy()
            explore = rng.random(env.n) < eps
            a = np.where(explore, rng.integers(0, N_ACTIONS, env.n), a)
            s, r, s2, d = env.step(a)
            memory.add(s, a, r, s2, d)
            returns.append(r.mean())

            idx, (s, a, r, s2, d, w) = memory.sample(batch, beta=0.4)
            with torch.no_grad():
                best = net(s2).argmax(1, keepdim=True)
                y = r + gamma * (1 - d) * target(s2).gather(1, best).squeeze(1)
            q = net(s).gather(1, a[:, None]).squeeze(1)
            loss = (w.float() * F.smooth_l1_loss(q, y, reduction="none")).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            memory.update(idx, (q - y).detach().numpy())
            torch._foreach_lerp_(list(target.parameters()), [p.detach() for p in net.parameters()], tau)
            losses += loss.item()
        print(
            f"epoch {epoch} loss {losses / updates:.5f} reward {np.mean(returns):.3f} "
            f"eps {eps:.2f} [{time.time() - t0:.1f}s]",
            flush=True,
        )


if __name__ == "__main__":
    main()
