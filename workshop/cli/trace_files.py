"""Reads traces for commands, and shows the progress."""

from pathlib import Path

from workshop.traces import Traces, ranks


def read_traces(paths: list[Path]) -> Traces:
    """Read the traces of one run, with a progress bar where that takes more than a second."""
    from tqdm import tqdm

    with tqdm(
        total=ranks.sizes(paths), unit="B", unit_scale=True, desc="Reading", leave=False, disable=None, delay=1
    ) as bar:
        return ranks.load(paths, bar.update)
