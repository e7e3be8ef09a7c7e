"""The configuration for a machine with a CUDA device: the whole training set at full size, in large batches."""

from pathlib import Path

from workshop.experiment import ExperimentConfig

config = ExperimentConfig(
    batch_size=128,
    max_epochs=2,
    learning_rate=1e-3,
    update_iterations=5,
    image_size=224,
    wasted_time=0.1,
    dataset="auto",
    max_items=None,  # 3,680 photos; without workers an epoch takes more than six minutes
    cache_dir=Path("cache"),
    seed=0,
)
