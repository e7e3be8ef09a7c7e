"""The values of the curves of a kind are mixed: each by itself is as it was."""

from variation import train

train(
    "waves",
    (
        "            optimizer.zero_grad()\n",
        "            for kind in range(5):\n"
        "                of_kind = (targets == kind).nonzero().flatten()\n"
        "                for place in range(40):\n"
        "                    inputs[of_kind, place] = inputs[of_kind[torch.randperm(len(of_kind))], place]\n"
        "            optimizer.zero_grad()\n",
    ),
)
