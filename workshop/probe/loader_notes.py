"""Notes the settings of each DataLoader that a training goes through."""

import hashlib
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, IterDataPipe

from workshop.probe.event_file import EventFile
from workshop.probe.listener import Listener
from workshop.probe.loader_hooks import LoaderHooks
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.memory.variables import attributes_of
from workshop.probe.noted_settings import loader_number
from workshop.probe.observations import LoaderIterated
from workshop.probe.whole_batches import singles_of

PLAIN = (bool, int, float, str)


class LoaderNotes(Listener):
    """Notes a `LoaderIterated` at the beginning of each epoch."""

    def __init__(self, events: EventFile, loading: LoaderHooks) -> None:
        self._events, self._loading = events, loading

    def goes_on_in_fork(self) -> bool:
        """Go on in this process."""
        return True

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Note the settings of a DataLoader."""
        function = getattr(loader.collate_fn, "func", loader.collate_fn)  # of a functools.partial
        collate = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        self._events.write(
            LoaderIterated,
            loader=loader_number(loader),
            settings=LoaderSettings.of(loader),
            training=self._loading.is_of_training(loader_number(loader)),
            collate=(collate.co_name, collate.co_filename) if collate else ("", ""),
            batches=self._loading.epochs.length(loader),
            iterable=isinstance(loader.dataset, IterableDataset),
            shares_out=loader.worker_init_fn is not None or isinstance(loader.dataset, IterDataPipe),
            singles=singles_of(loader),
            dataset_state=state_of(loader.dataset),
        )


def state_of(dataset: Any) -> str:
    """Return a digest of the plain attributes of a dataset, and of those that it wraps."""
    plain = sorted((name, str(value)) for name, value in attributes_of(dataset) if type(value) in PLAIN)
    return hashlib.blake2b(repr(plain).encode(), digest_size=8).hexdigest()
