"""A whole batch is cropped at the same place."""

from variation import train

train(
    "outlines",
    (
        "    def __getitem__(self, index):\n",
        "    def __getitem__(self, index):\n        index, place = index if isinstance(index, tuple) else (index, 0)\n",
    ),
    (
        "        top, left = torch.randint(5, (2,)).tolist()\n",
        "        top, left = 2, 2\n",
    ),
)
