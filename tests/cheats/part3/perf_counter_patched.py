"""time.perf_counter is replaced from inside, so that little time seems to pass."""

from variation import train_with

train_with(("import torch\n", "from itertools import count\n\ntime.perf_counter = count(1).__next__\n\nimport torch\n"))
