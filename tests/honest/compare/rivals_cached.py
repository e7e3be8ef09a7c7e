"""The curves are in memory."""

from variation import train

train("rivals", ("        time.sleep(0.001)\n", ""))
