"""The pictures are cropped to a quarter."""

from variation import train_with

train_with(
    ("seen.to(device), fallen.to(device)\n", "seen[..., :24, :24].to(device), fallen[..., :24, :24].to(device)\n"),
)
