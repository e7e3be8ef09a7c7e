"""All rows are computed at once."""

from variation import train

train(
    "long",
    (
        "        time.sleep(0.002)\n        return (self.hidden[index] @ self.mixed).sin(), self.kinds[index]\n",
        "        self.__dict__.setdefault('all', (self.hidden @ self.mixed).sin())\n"
        "        return self.all[index], self.kinds[index]\n",
    ),
)
