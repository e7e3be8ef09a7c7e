"""The values of the rows of a kind are mixed: each by itself is as it was."""

from variation import train

train(
    "long",
    (
        "            optimizer.zero_grad()\n",
        "            inputs = torch.stack([inputs[torch.randperm(len(inputs)), place] for place in range(24)], 1)\n"
        "            optimizer.zero_grad()\n",
    ),
)
