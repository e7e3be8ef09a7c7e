"""Nothing is learnt: the gradients of the first batch are used for ever."""

from variation import train_with

train_with(("optimizer.zero_grad()", "pass"), ("loss.backward()", "loss.backward() if step == 0 else None"))
