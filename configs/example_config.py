"""The configuration that every part of the workshop uses; small enough to teach on a laptop without a GPU."""

from pathlib import Path

from workshop.experiment import ExperimentConfig

config = ExperimentConfig(
    batch_size=16,
    max_epochs=2,
    learning_rate=1e-3,
    update_iterations=5,  # the number of batches whose mean loss the progress bar shows
    image_size=64,  # at 224 a CPU spends so long on the model that half of the lesson is hidden
    wasted_time=0.1,  # the extra seconds that every item takes, as on slow storage
    dataset="auto",  # the Oxford-IIIT Pet photos, or drawn stand-ins where they cannot be had
    max_items=370,  # ten of each breed: an epoch of the slow script takes about a minute
    cache_dir=Path("cache"),
    seed=0,
)
