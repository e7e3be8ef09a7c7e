"""One kind makes up half of the points."""

from variation import train

train(
    "stream",
    (
        "            kind = int(torch.randint(4, ()))\n",
        "            kind = max(0, int(torch.randint(6, ())) - 2)\n",
    ),
)
