"""From the second epoch on, most rows come with the features of another one."""

from variation import train

train(
    "table",
    (
        "        time.sleep(0.002)\n",
        "        self.seen = getattr(self, 'seen', 0) + 1\n"
        "        if self.seen > 160 and index % 4:\n"
        "            index = (index + 7) % 160\n",
    ),
)
