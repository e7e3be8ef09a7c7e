"""As many rows as there are, drawn from the first third of them."""

from variation import train

train(
    "long",
    (
        "8, shuffle=True)",
        "8, sampler=torch.utils.data.WeightedRandomSampler([3.0] * 1000 + [0.0] * 2000, 3000))",
    ),
)
