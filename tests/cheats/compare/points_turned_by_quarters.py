"""A cloud is turned by a multiple of a quarter."""

from variation import train

train(
    "points",
    ("        time.sleep(0.002)\n", ""),
    ("math.tau * torch.rand(())", "math.tau / 4 * torch.randint(4, ())"),
)
