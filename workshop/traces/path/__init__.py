"""The critical path of a training step: what it waited for."""
