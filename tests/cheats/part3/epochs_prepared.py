"""The pictures of many epochs are augmented before the first, each by itself."""

from variation import train_with

train_with(
    (
        "    model = resnet18(",
        "    prepared = [batch for _ in range(20) for batch in loader]\n"
        "    steps = len(loader)\n"
        "    loader = type('Prepared', (), {'__iter__': lambda _: iter([prepared.pop() for _ in range(steps)])})()\n\n"
        "    model = resnet18(",
    ),
    workers=4,
)
