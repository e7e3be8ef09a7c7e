"""Features are kept, in half precision."""

from variation import train

train(
    "table",
    (
        "        return self.features(index), self.targets[index]\n",
        "        kept = self.__dict__.setdefault('kept', {})\n"
        "        if index not in kept:\n"
        "            kept[index] = self.features(index).half()\n"
        "        return kept[index].float(), self.targets[index]\n",
    ),
)
