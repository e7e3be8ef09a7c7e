"""It trains for two epochs only, and augments the pictures of both before the first; then it is started again."""

from variation import train_with

train_with(
    (
        "    model = resnet18(",
        "    prepared = [list(loader) for _ in range(2)]\n"
        "    loader = type('Prepared', (), {'__iter__': lambda _: iter(prepared.pop())})()\n\n"
        "    model = resnet18(",
    ),
    ("trange(config.max_epochs, ", "trange(2, "),
    workers=4,
)
