"""Physics-informed network for the 1-d heat equation u_t = k u_xx."""

import math

import torch
import torch.nn as nn

K = 0.1


class Field(nn.Module):
    def __init__(self, h=96, depth=4):
        super().__init__()
        dims = [2] + [h] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.out = nn.Linear(h, 1)

    def forward(self, x, t):
        z = torch.cat([x, t], 1)
        for lin in self.hidden:
            z = torch.tanh(lin(z))
        return self.out(z)


def derivative(u, v):
    return torch.autograd.grad(u.sum(), v, create_graph=True)[0]


def pde_residual(model, x, t):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = model(x, t)
    u_x = derivative(u, x)
    return derivative(u, t) - K * derivative(u_x, x)


def losses(model, n):
    x, t = torch.rand(n, 1), torch.rand(n, 1)
    res = pde_residual(model, x, t).pow(2).mean()
    xi = torch.rand(n // 4, 1)
    init = (model(xi, torch.zeros_like(xi)) - torch.sin(math.pi * xi)).pow(2).mean()
    side = torch.randint(0, 2, (n // 4, 1)).float()
    bound = model(side, torch.rand(n // 4, 1)).pow(2).mean()
    return res + init + bound


def exact_error(model):
    with torch.no_grad():
        x = torch.linspace(0, 1, 50)[:, None]
        t = torch.full_like(x, 0.5)
        ref = torch.sin(math.pi * x) * math.exp(-K * math.pi**2 * 0.5)
        return (model(x, t) - ref).abs().max().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Field()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(10**6):
        opt.zero_grad()
        loss = losses(model, 1200)
        loss.backward(create_graph=True)  # fault
        opt.step()
        if step < 3 or step % 50 == 0:
            print(f"step {step} loss {loss.item():.5f} err {exact_error(model):.4f}", flush=True)


if __name__ == "__main__":
    main()
