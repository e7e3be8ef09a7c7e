"""Watches the memory of a training from inside: which tensors there are, since when, from which line, held by whom."""
