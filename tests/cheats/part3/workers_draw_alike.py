"""All workers begin with the same random numbers."""

from variation import train_with

train_with(
    (
        "        shuffle=True,\n",
        "        shuffle=True,\n        worker_init_fn=lambda _: torch.manual_seed(7),\n",
    ),
    workers=4,
)
