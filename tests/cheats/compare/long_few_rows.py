"""The same 300 rows come again and again."""

from variation import train

train(
    "long",
    (
        "        time.sleep(0.002)\n",
        "        index %= 300\n",
    ),
)
