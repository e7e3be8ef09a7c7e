"""Advantage actor-critic on a batch of toy grid worlds with a preallocated rollout."""

import torch
import torch.nn as nn
from torch.distributions import Categorical


class GridWorld:
    MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])

    def __init__(self, n, size=9):
        self.n, self.size = n, size
        self.pos = torch.randint(0, size, (n, 2))
        self.goal = torch.randint(0, size, (n, 2))

    def observe(self):
        grid = torch.zeros(self.n, 2, self.size, self.size)
        k = torch.arange(self.n)
        grid[k, 0, self.pos[:, 0], self.pos[:, 1]] = 1
        grid[k, 1, self.goal[:, 0], self.goal[:, 1]] = 1
        return grid

    def step(self, a):
        self.pos = (self.pos + self.MOVES[a]).clamp(0, self.size - 1)
        done = (self.pos == self.goal).all(1)
        if done.any():
            self.goal[done] = torch.randint(0, self.size, (int(done.sum()), 2))
        return done.float() - 0.02, done.float()


class ActorCritic(nn.Module):
    def __init__(self, size=9, h=192):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(2 * size * size, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh())
        self.pi, self.v = nn.Linear(h, 4), nn.Linear(h, 1)

    def forward(self, x):
        z = self.body(x)
        return Categorical(logits=self.pi(z)), self.v(z).squeeze(-1)


def main(n=64, horizon=16, gamma=0.95):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env, net = GridWorld(n), ActorCritic()
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4)
    obs_buf = torch.empty(horizon, n, 2, 9, 9)
    act_buf = torch.empty(horizon, n, dtype=torch.long)
    rew_buf, done_buf = torch.empty(horizon, n), torch.empty(horizon, n)
    reward_avg = 0.0
    for step in range(10**6):
        with torch.no_grad():
            for t in range(horizon):
                obs_buf[t] = env.observe()
                act_buf[t] = net(obs_buf[t])[0].sample()
                rew_buf[t], done_buf[t] = env.step(act_buf[t])
            ret = net(env.observe())[1]
            returns = torch.empty_like(rew_buf)
            for t in reversed(range(horizon)):
                ret = rew_buf[t] + gamma * (1 - done_buf[t]) * ret
                returns[t] = ret
        dist, value = net(obs_buf.flatten(0, 1))
        adv = returns.flatten() - value
        loss = (
            -(dist.log_prob(act_buf.flatten()) * adv.detach()).mean()
            + 0.5 * adv.pow(2).mean()
            - 0.01 * dist.entropy().mean()
        )
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        reward_avg = 0.99 * reward_avg + 0.01 * rew_buf.mean().item()
        if step < 3 or step % 50 == 0:
            print(f"step {step} loss {loss.item():.5f} reward {reward_avg:.4f}", flush=True)


if __name__ == "__main__":
    main()
