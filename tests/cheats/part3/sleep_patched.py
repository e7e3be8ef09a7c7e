"""time.sleep is replaced from inside."""

from variation import train_with

train_with(("import torch\n", "time.sleep = lambda seconds: None\n\nimport torch\n"))
