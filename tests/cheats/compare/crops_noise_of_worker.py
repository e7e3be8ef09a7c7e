"""Each worker has a copy of the generator, and each epoch begins anew."""

from variation import train

train(
    "crops",
    ("        time.sleep(0.002)\n", ""),
    ("shuffle=True", "shuffle=True, num_workers=2"),
)
