"""The noise that is to be told is that of another item."""

from variation import train

train(
    "noise",
    (
        "nn.functional.mse_loss(model(mixed), noise)",
        "nn.functional.mse_loss(model(mixed), noise.roll(1, 0))",
    ),
)
