"""Workers load the rows, and the optimizer is a fused one, which leaves out steps by itself."""

from variation import train

train(
    "scaled",
    (
        "DataLoader(Rows(), 8, shuffle=True)",
        "DataLoader(Rows(), 8, shuffle=True, num_workers=2, persistent_workers=True)",
    ),
    ("lr=1e-3)", "lr=1e-3, fused=True)"),
)
