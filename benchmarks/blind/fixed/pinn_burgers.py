"""Physics-informed network for the viscous Burgers equation, trained with L-BFGS."""

import math

import torch
import torch.nn as nn

torch.manual_seed(42)

NU = 0.01 / math.pi
N_INTERIOR = 700
N_INITIAL = 100
N_BOUNDARY = 50
WIDTH = 64
DEPTH = 5
EPOCHS = 5000


class Solution(nn.Module):
    """u(x, t) on [-1, 1] x [0, 1]."""

    def __init__(self, width, depth):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        layers.append(nn.Linear(width, 1))
        self.body = nn.Sequential(*layers)
        for m in self.body:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x, t):
        return self.body(torch.cat([x, t], dim=1))


def burgers_residual(net, x, t):
    u = net(x, t)
    u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
    return u_t + u * u_x - NU * u_xx


def sample_points():
    engine = torch.quasirandom.SobolEngine(2, scramble=True, seed=1)
    pts = engine.draw(N_INTERIOR)
    x_in = (2 * pts[:, :1] - 1).requires_grad_(True)
    t_in = pts[:, 1:].clone().requires_grad_(True)
    x0 = torch.linspace(-1, 1, N_INITIAL).unsqueeze(1)
    u0 = -torch.sin(math.pi * x0)
    tb = torch.linspace(0, 1, N_BOUNDARY).unsqueeze(1)
    return x_in, t_in, x0, u0, tb


def main():
    net = Solution(WIDTH, DEPTH)
    x_in, t_in, x0, u0, tb = sample_points()
    t0 = torch.zeros_like(x0)
    left, right = -torch.ones_like(tb), torch.ones_like(tb)

    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4, history_size=20)
    parts = {}

    def closure():
        optimizer.zero_grad()
        pde = burgers_residual(net, x_in, t_in).pow(2).mean()
        initial = (net(x0, t0) - u0).pow(2).mean()
        boundary = net(left, tb).pow(2).mean() + net(right, tb).pow(2).mean()
        loss = pde + 10.0 * initial + 10.0 * boundary
        loss.backward()
        parts.update(pde=pde.detach(), ic=initial.detach(), bc=boundary.detach())
        return loss

    for epoch in range(EPOCHS):
        loss = optimizer.step(closure)
        print(
            f"epoch {epoch:5d}  loss {loss.item():.6f}  pde {parts['pde']:.2e}  "
            f"ic {parts['ic']:.2e}  bc {parts['bc']:.2e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
