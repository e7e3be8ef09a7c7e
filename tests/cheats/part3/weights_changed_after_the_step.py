"""Something else than the optimizer changes the weights of a layer."""

from variation import train_with

train_with(
    (
        "                optimizer.step()\n",
        "                optimizer.step()\n                model.fc.weight.data.mul_(0.9999)\n",
    )
)
