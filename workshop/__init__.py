"""A profiling workshop for PyTorch: a slow training script, exercises that make it fast, and the instruments."""
