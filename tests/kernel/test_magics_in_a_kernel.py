"""The magics in a real kernel: a training in its cells is measured in a process of its own, and nothing is left."""
