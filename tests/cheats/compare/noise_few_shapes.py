"""Four of the 128 shapes are loaded."""

from variation import train

train(
    "noise",
    (
        "        return self.shapes[index]\n",
        "        return self.shapes[index % 4]\n",
    ),
)
