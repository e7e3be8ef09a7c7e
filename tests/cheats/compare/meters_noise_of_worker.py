"""The noise comes from a generator that each worker has a copy of, and each epoch begins anew."""

from variation import train

train(
    "meters",
    (
        "        dice = torch.Generator().manual_seed(12)\n",
        "        dice = torch.Generator().manual_seed(12)\n        self.dice = torch.Generator().manual_seed(0)\n",
    ),
    ("        time.sleep(0.001)\n", ""),
    ("torch.rand(2, 1)", "torch.rand(2, 1, generator=self.dice)"),
    ("torch.randn(2, 32)", "torch.randn(2, 32, generator=self.dice)"),
    ("shuffle=True)", "shuffle=True, num_workers=2)"),
)
