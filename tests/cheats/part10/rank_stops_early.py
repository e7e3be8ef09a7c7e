"""All ranks but the first leave each epoch before its last batch."""

from variation import train_with

train_with(
    (
        "                optimizer.zero_grad()\n",
        "                if rank and (number + 1) * config.batch_size > len(dataset):\n"
        "                    break\n"
        "                optimizer.zero_grad()\n",
    )
)
