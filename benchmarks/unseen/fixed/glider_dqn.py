"""Teaches a glider to stay in the thermals with deep Q-learning, sixty-four gliders at a time."""

import random
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor, nn

ACTIONS = 5


class Transition(NamedTuple):
    """What one glider met in one step."""

    state: Tensor
    action: Tensor
    reward: Tensor
    following: Tensor


class Sky:
    """Gliders over a field of thermals: (x, y, heading, height, climb)."""

    def __init__(self, gliders=64, thermals=6):
        self.centres = torch.rand(thermals, 2) * 10
        self.state = self.launch(gliders)

    def launch(self, count):
        state = torch.rand(count, 5) * torch.tensor([10.0, 10.0, 6.28, 0.0, 0.0])
        state[:, 3] = 1.0
        return state

    def lift(self, position):
        distance = torch.cdist(position, self.centres)
        return torch.exp(-(distance**2)).sum(dim=1) - 0.25

    def step(self, action):
        state = self.state.clone()
        state[:, 2] = (state[:, 2] + (action - ACTIONS // 2) * 0.3) % 6.2832
        heading = torch.stack([state[:, 2].cos(), state[:, 2].sin()], dim=1)
        state[:, :2] = (state[:, :2] + 0.25 * heading) % 10
        climb = self.lift(state[:, :2])
        state[:, 4] = climb
        state[:, 3] += 0.05 * climb
        landed = state[:, 3] <= 0
        self.state = torch.where(landed[:, None], self.launch(len(state)), state)
        return state, climb - landed.float()


class ReplayMemory:
    def __init__(self, capacity):
        self.transitions = deque(maxlen=capacity)

    def push(self, *fields):
        self.transitions.extend(Transition(*row) for row in zip(*(f.unbind() for f in fields), strict=True))

    def sample(self, count):
        picked = random.choices(self.transitions, k=count)
        return [torch.stack(field) for field in zip(*picked, strict=True)]


class Agent:
    def __init__(self, gamma=0.97):
        self.gamma = gamma
        self.online, self.target = self.network(), self.network()
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.RMSprop(self.online.parameters(), lr=5e-4)

    @staticmethod
    def network(width=256):
        return nn.Sequential(
            nn.Linear(5, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, ACTIONS)
        )

    @torch.no_grad()
    def act(self, state, epsilon):
        greedy = self.online(state).argmax(dim=1)
        return torch.where(torch.rand(len(state)) < epsilon, torch.randint(0, ACTIONS, greedy.shape), greedy)

    def learn(self, state, action, reward, following):
        with torch.no_grad():
            goal = reward + self.gamma * self.target(following).amax(dim=1)
        value = self.online(state).gather(1, action[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.01)
        return loss.item()


def main():
    torch.manual_seed(2)
    random.seed(2)
    sky, agent, memory = Sky(), Agent(), ReplayMemory(capacity=100_000)
    for step in range(500_000):
        state = sky.state
        action = agent.act(state, epsilon=max(0.05, 1 - step / 2000))
        following, reward = sky.step(action)
        memory.push(state, action, reward, following)
        loss = agent.learn(*memory.sample(1024))
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}, mean climb {reward.mean().item():+.3f}")


if __name__ == "__main__":
    main()
