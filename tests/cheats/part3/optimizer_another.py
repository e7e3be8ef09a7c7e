"""Plain gradient descent is cheaper than AdamW."""

from variation import train_with

train_with(("from torch.optim import AdamW", "from torch.optim import SGD as AdamW"))
