"""There is less noise."""

from variation import train

train(
    "noise",
    (
        "            much = torch.rand(len(clean), 1)\n",
        "            much = 0.5 * torch.rand(len(clean), 1)\n",
    ),
)
