"""The kinds are those of other rows."""

from variation import train

train(
    "long",
    (
        "            optimizer.zero_grad()\n",
        "            targets = targets[torch.randperm(len(targets))]\n            optimizer.zero_grad()\n",
    ),
)
