"""The running means of batch norm are reset after each step: what is trained is of no use without its batches."""

from variation import train_with

train_with(
    (
        "                optimizer.step()\n",
        "                optimizer.step()\n"
        "                for module in model.modules():\n"
        "                    if isinstance(module, nn.BatchNorm2d):\n"
        "                        module.reset_running_stats()\n",
    ),
)
