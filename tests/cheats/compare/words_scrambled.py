"""The words of a window come in any order, and so do the targets."""

from variation import train

train(
    "words",
    (
        "            optimizer.zero_grad()\n",
        "            inputs = inputs[:, torch.randperm(LENGTH)]\n            optimizer.zero_grad()\n",
    ),
)
