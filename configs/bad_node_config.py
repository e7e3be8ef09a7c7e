"""The configuration of part 10: a short run on a cluster with a bad node, where one rank is slower than the others."""

from pathlib import Path

from workshop.bad_node import slow_one_rank
from workshop.experiment import ExperimentConfig

slow_one_rank(seconds=0.3)  # at each step

config = ExperimentConfig(
    batch_size=16,
    max_epochs=2,
    learning_rate=1e-3,
    update_iterations=5,
    image_size=64,
    wasted_time=0.1,
    dataset="auto",
    max_items=185,  # five of each breed
    cache_dir=Path("cache"),
    seed=0,
)
