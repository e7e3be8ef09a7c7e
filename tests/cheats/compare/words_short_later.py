"""From the second step on, windows are a quarter as long."""

from variation import train

train(
    "words",
    (
        "        for inputs, targets in loader:\n",
        "        for number, (inputs, targets) in enumerate(loader):\n",
    ),
    (
        "            optimizer.zero_grad()\n",
        "            if number:\n"
        "                inputs, targets = inputs[:, :12], targets[:, :12]\n"
        "            optimizer.zero_grad()\n",
    ),
)
