"""The gradients are never set to zero."""

from variation import train_with

train_with(("optimizer.zero_grad()", "pass"))
