"""Each curve is drawn once, and kept."""

from variation import train

train(
    "waves",
    (
        "        time.sleep(0.002)\n        kind = index % 5\n",
        "        if index in (kept := self.__dict__.setdefault('kept', {})):\n"
        "            return kept[index]\n"
        "        kind = index % 5\n",
    ),
    (
        "        return (along + 0.5 * torch.randn(())).sin() + 0.3 * torch.randn(40), kind\n",
        "        kept[index] = (along + 0.5 * torch.randn(())).sin() + 0.3 * torch.randn(40), kind\n"
        "        return kept[index]\n",
    ),
)
