"""From the second epoch on, the random crop takes nearly the whole picture."""

from variation import train_with

train_with(
    ("persistent_workers=True,", ""),
    (
        "            step_start = time.perf_counter()\n            batches",
        "            transform.transforms[1].transforms[3].scale = (0.95 if epoch else 0.08, 1.0)\n"
        "            step_start = time.perf_counter()\n            batches",
    ),
)
