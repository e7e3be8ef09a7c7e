"""A few points are drawn, and come again and again."""

from variation import train

train(
    "stream",
    (
        "        while True:\n            time.sleep(0.002)\n            kind = int(torch.randint(4, ()))\n",
        "        number = 0\n"
        "        while True:\n"
        "            torch.manual_seed(number % 50)\n"
        "            number += 1\n"
        "            kind = int(torch.randint(4, ()))\n",
    ),
)
