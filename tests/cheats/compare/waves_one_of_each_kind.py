"""One curve of each kind serves for all of that kind."""

from variation import train

train(
    "waves",
    (
        "        time.sleep(0.002)\n        kind = index % 5\n",
        "        kind = index % 5\n        index = kind\n",
    ),
)
