"""Workers load the sentences."""

from variation import train

train(
    "sentences",
    (
        "collate_fn=together)",
        "collate_fn=together, num_workers=2)",
    ),
)
