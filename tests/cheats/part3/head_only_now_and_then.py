"""Every third step goes back through the last layer only."""

from variation import train_with

train_with(
    (
        "                loss.backward()\n",
        "                if step % 3:\n"
        "                    loss.backward()\n"
        "                else:\n"
        "                    head = list(model.fc.parameters())\n"
        "                    for parameter, gradient in zip(head, torch.autograd.grad(loss, head)):\n"
        "                        parameter.grad = gradient\n",
    )
)
