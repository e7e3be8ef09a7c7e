"""The optimizer's state is rounded to bfloat16 after each step."""

from variation import train_with

train_with(
    (
        "                optimizer.step()\n",
        "                optimizer.step()\n"
        "                for state in optimizer.state.values():\n"
        "                    for name in ('exp_avg', 'exp_avg_sq'):\n"
        "                        state[name].copy_(state[name].bfloat16())\n",
    )
)
