"""All parameters but the first decay less, and learn faster."""

from variation import train_with

train_with(
    (
        "AdamW(model.parameters(), lr=config.learning_rate)",
        "AdamW([{'params': [model.conv1.weight]}, {'params': list(model.parameters())[1:], 'weight_decay': 0.0}], "
        "lr=config.learning_rate)",
    )
)
