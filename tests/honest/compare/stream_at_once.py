"""Points are drawn by the hundred."""

from variation import train

train(
    "stream",
    (
        "            time.sleep(0.002)\n"
        "            kind = int(torch.randint(4, ()))\n"
        "            along = 3 * torch.rand(()) + kind\n"
        "            yield torch.stack([along.cos(), along.sin()]) * (1 + 0.3 * kind) @ self.mixed, kind\n",
        "            kinds = torch.randint(4, (100,))\n"
        "            along = 3 * torch.rand(100) + kinds\n"
        "            points = torch.stack([along.cos(), along.sin()], 1) * (1 + 0.3 * kinds)[:, None] @ self.mixed\n"
        "            yield from zip(points, kinds.tolist())\n",
    ),
)
