"""The sleep goes on in a thread beside, and nobody waits for it."""

from variation import train_with

train_with(
    ("import time", "import threading\nimport time"),
    ("time.sleep(self.wasted_time)", "threading.Thread(target=time.sleep, args=(self.wasted_time,)).start()"),
)
