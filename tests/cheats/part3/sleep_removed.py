"""The slow storage is not slow any more."""

from variation import train_with

train_with(("time.sleep(self.wasted_time)", "pass"))
