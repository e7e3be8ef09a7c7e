"""Double DQN on a logged set of catch-the-ball games with stacked frames."""

import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "state action reward next_state done")

SIDE = 32
STACK = 4
ACTIONS = 3


class CatchGame:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.row, self.col = 0, int(self.rng.integers(SIDE))
        self.drift = int(self.rng.integers(-1, 2))
        self.paddle = SIDE // 2
        self.frames = deque([self.draw()] * STACK, maxlen=STACK)
        return np.stack(self.frames)

    def draw(self):
        frame = np.zeros((SIDE, SIDE), dtype=np.float32)
        frame[self.row, self.col] = 1.0
        frame[-1, max(0, self.paddle - 2) : self.paddle + 3] = 1.0
        return frame

    def step(self, action):
        self.paddle = min(SIDE - 1, max(0, self.paddle + 2 * (action - 1)))
        self.row += 1
        self.col = (self.col + self.drift) % SIDE
        done = self.row == SIDE - 1
        reward = (1.0 if abs(self.col - self.paddle) <= 2 else -1.0) if done else 0.0
        self.frames.append(self.draw())
        return np.stack(self.frames), reward, done


def collect(games, seed):
    rng = np.random.default_rng(seed)
    game, memory = CatchGame(rng), []
    for _ in range(games):
        state, done = game.reset(), False
        while not done:
            greedy = 1 + int(np.sign(game.col - game.paddle))
            action = greedy if rng.random() < 0.6 else int(rng.integers(ACTIONS))
            next_state, reward, done = game.step(action)
            memory.append(Transition(state, action, reward, next_state, done))
            state = next_state
    return memory


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(STACK, 24, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 48, 3, padding=1),
            nn.ReLU(),
        )
        self.value = nn.Sequential(nn.Linear(48 * 64, 128), nn.ReLU(), nn.Linear(128, 1))
        self.advantage = nn.Sequential(nn.Linear(48 * 64, 128), nn.ReLU(), nn.Linear(128, ACTIONS))

    def forward(self, frames):
        h = self.conv(frames).flatten(1)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(1, keepdim=True)


def to_float(values):
    return torch.from_numpy(np.array(values, dtype=np.float32))


def replay(memory, batch_size, updates):
    for _ in range(updates):
        batch = Transition(*zip(*random.sample(memory, batch_size)))
        yield (
            to_float(batch.state),
            torch.tensor(batch.action),
            to_float(batch.reward),
            to_float(batch.next_state),
            to_float(batch.done),
        )


def td_loss(online, target, batch, gamma=0.98):
    state, action, reward, next_state, done = batch
    q = online(state).gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = online(next_state).argmax(1, keepdim=True)
        backup = reward + gamma * (1 - done) * target(next_state).gather(1, best).squeeze(1)
    return F.smooth_l1_loss(q, backup)


def main():
    random.seed(2)
    torch.manual_seed(2)
    memory = collect(games=60, seed=2)
    online, target = QNetwork(), QNetwork()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-4)
    for epoch in range(2000):
        losses = []
        for batch in replay(memory, batch_size=64, updates=20):
            loss = td_loss(online, target, batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(online.parameters(), 10.0)
            optimizer.step()
            losses.append(loss.item())
        target.load_state_dict(online.state_dict())
        print(f"epoch {epoch} td {np.mean(losses):.5f}", flush=True)


if __name__ == "__main__":
    main()
