"""Physics-informed network for a nonlinear Poisson problem on the unit cube.

    q = grad(u),   -div(q) + u^3 + b . q = f     in (0, 1)^3,      u = g on the boundary

The network predicts the potential u and the flux q (mixed formulation).
"""

import math
import time

import torch
import torch.nn as nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

N_INTERIOR, N_BOUNDARY = 800, 200
WIND = (1.0, 0.5, -0.25)


def exact(p):
    return torch.sin(math.pi * p[:, 0:1]) * torch.sin(math.pi * p[:, 1:2]) * torch.cos(math.pi * p[:, 2:3])


def source(p):
    sx, sy, cz = torch.sin(math.pi * p[:, 0:1]), torch.sin(math.pi * p[:, 1:2]), torch.cos(math.pi * p[:, 2:3])
    cx, cy, sz = torch.cos(math.pi * p[:, 0:1]), torch.cos(math.pi * p[:, 1:2]), torch.sin(math.pi * p[:, 2:3])
    u = sx * sy * cz
    adv = math.pi * (WIND[0] * cx * sy * cz + WIND[1] * sx * cy * cz - WIND[2] * sx * sy * sz)
    return 3 * math.pi**2 * u + u**3 + adv


class Net(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        sizes = [3] + [width] * depth + [4]
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])
        for layer in self.layers:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, p):
        for layer in self.layers[:-1]:
            p = torch.tanh(layer(p))
        return self.layers[-1](p)


def gradients(out, inp):
    return torch.autograd.grad(out, inp, torch.ones_like(out), create_graph=True)[0]


def residual(net, p):
    u, q = net(p).split([1, 3], dim=1)
    div, advection, constitutive = 0.0, 0.0, 0.0
    grad_u = gradients(u, p)
    for i in range(3):
        u_i = grad_u[:, i : i + 1]
        q_i = q[:, i : i + 1]
        div = div + gradients(q_i, p)[:, i : i + 1]
        advection = advection + WIND[i] * q_i
        constitutive = constitutive + (q_i - u_i).pow(2).mean()
    balance = (-div + u**3 + advection - source(p)).pow(2).mean()
    return balance, constitutive


def boundary_points(n):
    p = torch.rand(n, 3)
    axis = torch.randint(0, 3, (n,))
    p[torch.arange(n), axis] = torch.randint(0, 2, (n,)).to(p.dtype)
    return p


class Solver:
    def __init__(self):
        self.net = Net()
        self.interior = torch.rand(N_INTERIOR, 3).requires_grad_(True)
        self.boundary = boundary_points(N_BOUNDARY)
        self.target = exact(self.boundary)
        self.test = torch.rand(2000, 3)
        self.history = []
        self.optimizer = torch.optim.LBFGS(
            self.net.parameters(),
            lr=1.0,
            max_iter=3,
            max_eval=4,
            history_size=20,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

    def closure(self):
        self.optimizer.zero_grad()
        balance, constitutive = residual(self.net, self.interior)
        loss_bc = (self.net(self.boundary)[:, :1] - self.target).pow(2).mean()
        loss = balance + 10.0 * constitutive + 100.0 * loss_bc
        loss.backward()
        self.history.append(loss.item())
        return loss

    @torch.no_grad()
    def error(self):
        u = exact(self.test)
        return ((self.net(self.test)[:, :1] - u).norm() / u.norm()).item()

    def run(self, epochs=1000, inner=8):
        for epoch in range(epochs):
            t0 = time.time()
            for _ in range(inner):
                self.optimizer.step(self.closure)
            print(
                f"{epoch:5d} loss {self.history[-1]:.3e} rel-l2 {self.error():.3e} {time.time() - t0:.2f}s", flush=True
            )


if __name__ == "__main__":
    Solver().run()
