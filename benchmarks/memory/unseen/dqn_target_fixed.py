"""DQN on a toy pixel world: replay of random transitions with a target network."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self, actions=5):
        super().__init__()
        self.c1 = nn.Conv2d(3, 24, 3, padding=1)
        self.c2 = nn.Conv2d(24, 24, 3, padding=1)
        self.c3 = nn.Conv2d(24, 32, 3, stride=2, padding=1)
        self.fc = nn.Linear(32 * 16 * 16, 64)
        self.out = nn.Linear(64, actions)

    def forward(self, x):
        x = x.float() / 255
        x = F.silu(self.c1(x))
        x = F.silu(self.c2(x))
        x = F.silu(self.c3(x))
        return self.out(F.silu(self.fc(x.flatten(1))))


class Replay:
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.s = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=g)
        self.a = torch.randint(0, 5, (n,), generator=g)
        self.r = torch.randn(n, generator=g)
        self.done = (torch.rand(n, generator=g) < 0.05).float()

    def sample(self, k):
        i = torch.randint(0, len(self.a) - 1, (k,))
        return self.s[i], self.a[i], self.r[i], self.s[i + 1], self.done[i]


class Agent:
    def __init__(self, gamma=0.97, lr=3e-4):
        self.q = QNet()
        self.target = copy.deepcopy(self.q)
        self.gamma = gamma
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)

    def update(self, batch):
        s, a, r, s2, done = batch
        with torch.no_grad():
            next_q = self.target(s2).max(1).values
            y = r + self.gamma * (1 - done) * next_q
        q = self.q(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def sync(self):
        self.target.load_state_dict(self.q.state_dict())


def main():
    torch.manual_seed(11)
    torch.set_num_threads(1)
    replay = Replay(3000, 5)
    agent = Agent()
    for step in range(100000):
        loss = agent.update(replay.sample(112))
        if step < 3 or step % 100 == 0:
            print(f"step {step} loss {loss:.5f}", flush=True)
        if step % 200 == 199:
            agent.sync()


if __name__ == "__main__":
    main()
