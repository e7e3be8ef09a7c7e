"""The kinds of a batch are shuffled among its sentences."""

from variation import train

train(
    "sentences",
    (
        "            optimizer.zero_grad()\n",
        "            targets = targets[torch.randperm(len(targets))]\n            optimizer.zero_grad()\n",
    ),
)
