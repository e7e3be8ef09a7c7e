"""The workers sleep once, as they start, for all that they will ever read."""

from variation import train_with

train_with(
    ("time.sleep(self.wasted_time)", "pass"),
    ("shuffle=True,", "shuffle=True, worker_init_fn=lambda worker: time.sleep(3),"),
)
