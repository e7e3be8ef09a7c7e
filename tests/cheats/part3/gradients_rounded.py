"""Gradients are rounded to bfloat16."""

from variation import train_with

train_with(
    (
        "                loss.backward()\n",
        "                loss.backward()\n"
        "                for parameter in model.parameters():\n"
        "                    parameter.grad.copy_(parameter.grad.bfloat16())\n",
    )
)
