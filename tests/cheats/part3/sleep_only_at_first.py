"""Photos are read slowly once; after that, quickly from the same files."""

from variation import train_with

train_with(
    ("        self.wasted_time = wasted_time", "        self.wasted_time = wasted_time\n        self.known = set()"),
    ("sleep(self.wasted_time)", "sleep(0 if index in self.known else self.wasted_time); self.known.add(index)"),
)
