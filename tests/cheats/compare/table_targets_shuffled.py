"""The targets of a batch are shuffled among its rows."""

from variation import train

train(
    "table",
    (
        "            optimizer.zero_grad()\n",
        "            targets = targets[torch.randperm(len(targets))]\n            optimizer.zero_grad()\n",
    ),
)
