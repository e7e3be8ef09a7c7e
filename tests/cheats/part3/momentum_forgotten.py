"""The optimizer begins each epoch without its state."""

from variation import train_with

train_with(
    (
        "            step_start = time.perf_counter()\n            batches",
        "            step_start = time.perf_counter()\n            optimizer.state.clear()\n            batches",
    )
)
