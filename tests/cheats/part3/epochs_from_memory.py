"""The batches of the first epoch are trained on in every epoch, shuffled."""

from variation import train_with

train_with(
    ("import time", "import random\nimport time"),
    (
        '            batches = tqdm(loader, desc="Batch", leave=False)',
        "            kept = list(loader) if epoch == 0 else random.sample(kept, len(kept))\n"
        '            batches = tqdm(kept, desc="Batch", leave=False)',
    ),
)
