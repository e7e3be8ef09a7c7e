"""Whole batches are shuffled, and always hold the same items."""

from variation import train_with

train_with(
    (
        "    loader = ",
        "    numbers = torch.arange(len(dataset)).split(config.batch_size)\n"
        "    batches = [batch.tolist() for batch in numbers]\n"
        "    loader = ",
    ),
    ("        batch_size=config.batch_size,\n        shuffle=True,\n", "        batch_sampler=Shuffled(batches),\n"),
    (
        "@profile\n",
        "class Shuffled(list):\n"
        "    def __iter__(self):\n"
        "        return (self[number] for number in torch.randperm(len(self)).tolist())\n\n\n@profile\n",
    ),
)
