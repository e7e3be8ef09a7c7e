"""A profiling workshop for PyTorch: a slow training script, exercises that make it fast, and the instruments."""

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook the magics `%measure`, `%lines` and `%memory`; IPython calls this for `%load_ext workshop`."""
    from workshop.kernel.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take them away again."""
    from workshop.kernel.extension import unload

    unload(shell)
