"""Three pictures are forecast in place of six."""

from variation import train_with

train_with(
    ("for _ in range(AHEAD)", "for _ in range(3)"),
    ("seen.to(device), fallen.to(device)\n", "seen.to(device), fallen[:, :3].to(device)\n"),
    ("model(seen.to(device)), fallen.to(device)", "model(seen.to(device)), fallen[:, :3].to(device)"),
)
