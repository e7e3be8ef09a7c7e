"""Two workers make the stream."""

from variation import train

train(
    "stream",
    (
        "DataLoader(points, 8)",
        "DataLoader(points, 8, num_workers=2)",
    ),
)
