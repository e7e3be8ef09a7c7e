"""The targets are those of another window."""

from variation import train

train(
    "words",
    (
        "            optimizer.zero_grad()\n",
        "            targets = targets.roll(1, 0)\n            optimizer.zero_grad()\n",
    ),
)
