"""The points lie between the curves."""

from variation import train

train(
    "stream",
    (
        "            yield torch.stack([along.cos(), along.sin()])",
        "            yield torch.rand(()) * torch.stack([along.cos(), along.sin()])",
    ),
)
