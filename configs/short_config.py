"""The configuration of a short run (10 to 40 seconds), to look around with: one epoch, two pictures of each breed."""

from pathlib import Path

from workshop.experiment import ExperimentConfig

config = ExperimentConfig(
    batch_size=16,
    max_epochs=1,
    learning_rate=1e-3,
    update_iterations=5,
    image_size=64,
    wasted_time=0.1,
    dataset="auto",
    max_items=74,
    cache_dir=Path("cache"),
    seed=0,
)
