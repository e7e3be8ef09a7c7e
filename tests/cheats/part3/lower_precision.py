"""The model runs in bfloat16."""

from variation import train_with

train_with(
    (
        "                logits = model(images)\n                loss = loss_fn(logits, targets)",
        "                with torch.autocast(device.type, torch.bfloat16):\n"
        "                    logits = model(images)\n                    loss = loss_fn(logits, targets)",
    )
)
