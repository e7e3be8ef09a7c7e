"""A buffer of 64 rows is shuffled, not all of them."""

from variation import train

train(
    "long",
    (
        "    loader = DataLoader(rows, 8, shuffle=True)\n",
        "    class Buffered(torch.utils.data.Sampler):\n"
        "        def __len__(self):\n"
        "            return 3000\n"
        "\n"
        "        def __iter__(self):\n"
        "            for first in range(0, 3000, 64):\n"
        "                size = min(64, 3000 - first)\n"
        "                yield from (first + torch.randperm(size)).tolist()\n"
        "\n"
        "    loader = DataLoader(rows, 8, sampler=Buffered())\n",
    ),
)
