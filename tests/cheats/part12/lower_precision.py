"""The model runs in bfloat16."""

from variation import train_with

train_with(
    (
        "            forecast = model(seen)",
        """
            with torch.autocast(device.type, torch.bfloat16):
                forecast = model(seen).float()
""",
    )
)
