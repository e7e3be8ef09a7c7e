"""A worker loads the shapes, and the noise is drawn in place."""

from variation import train

train(
    "noise",
    (
        "DataLoader(shapes, 8, shuffle=True)",
        "DataLoader(shapes, 8, shuffle=True, num_workers=1)",
    ),
    (
        "torch.randn_like(clean)",
        "torch.empty_like(clean).normal_()",
    ),
)
