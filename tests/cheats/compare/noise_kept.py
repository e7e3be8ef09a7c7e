"""The noise is drawn once."""

from variation import train

train(
    "noise",
    (
        "            noise = torch.randn_like(clean)\n",
        "            noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))\n",
    ),
)
