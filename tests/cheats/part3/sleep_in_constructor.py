"""The main process sleeps once, and all its workers come to it by fork."""

from variation import train_with

train_with(
    ("persistent_workers=True,", ""),
    (
        "        self.wasted_time = wasted_time\n",
        "        self.wasted_time = wasted_time\n        time.sleep(5 * wasted_time)\n",
    ),
    ("        time.sleep(self.wasted_time)\n", ""),
)
