"""The kinds are those of other points."""

from variation import train

train(
    "stream",
    (
        "            optimizer.zero_grad()\n",
        "            targets = targets[torch.randperm(len(targets))]\n            optimizer.zero_grad()\n",
    ),
)
