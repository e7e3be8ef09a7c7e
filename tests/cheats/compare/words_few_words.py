"""All but the hundred most frequent words become the same one."""

from variation import train

train(
    "words",
    (
        "            optimizer.zero_grad()\n",
        "            inputs = inputs.clamp_max(100)\n            optimizer.zero_grad()\n",
    ),
)
