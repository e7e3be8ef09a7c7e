"""Rivals are any things, also those that the user knows."""

from variation import train

train(
    "pairs",
    ("        time.sleep(0.001)\n", ""),
    ("self.often.index_fill(0, self.things[self.users == user], 0)", "self.often"),
)
