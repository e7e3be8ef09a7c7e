"""The hooks into the DataLoaders of a training: batches are seen, kept, and replaced."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader

from workshop.probe.audience import Audience
from workshop.probe.batch_store import BatchStore
from workshop.probe.changed_loaders import ChangedLoaders
from workshop.probe.item_addresses import Address, next_address
from workshop.probe.loader_epochs import NO_BATCH, Epoch, LoaderEpochs, loader_of
from workshop.probe.messages import FromMemory, KeepBatches, LoadWith, SetStage
from workshop.probe.noted_settings import loader_number, site_of
from workshop.probe.open_handles import note_handles
from workshop.probe.phase_clock import PhaseClock
from workshop.probe.phases import Phase


class LoaderHooks:
    """What is done as a DataLoader begins an epoch, and as its iterator is asked for a batch.

    Args:
        clock: cuts the time of the training thread into phases.
        audience: is told.
        on_batch: called after each batch.
        evaluates: returns whether a model that was trained is in evaluation mode.

    Attributes:
        epochs: knows the length of each epoch, and how far it has come.
        batches: keeps batches and hands them out again.
        loaders: lets other DataLoaders load the batches.
        of_validation: whether the last batch was loaded to validate.
        in_evaluation: whether it was, with gradients switched on.
        asked: the number of the DataLoader that was asked for a batch last; -1 for another iterator.
        source: stands for its dataset: a script may make a DataLoader for each epoch.
        address: that of the last batch; None if it is not known, or not noted.
    """

    def __init__(
        self, clock: PhaseClock, audience: Audience, on_batch: Callable[[], None], evaluates: Callable[[], bool]
    ) -> None:
        self._clock, self._audience, self._on_batch, self._evaluates = clock, audience, on_batch, evaluates
        self.epochs = LoaderEpochs()
        self.batches = BatchStore()
        self.loaders = ChangedLoaders(self.batches)
        self.of_validation = self.in_evaluation = False
        self.asked, self.source = -1, 0
        self.address: Address | None = None
        self._trains = set[object]()
        self._own_threads = 0  # while others are tried

    def go_on_in_fork(self) -> None:
        """Start over in a forked process."""
        self._of_parent = self.loaders  # kept: its end would be that of the workers, which are the parent's
        self.batches = BatchStore()
        self.loaders = ChangedLoaders(self.batches)

    def begin_stage(self, stage: SetStage) -> None:
        """Let batches come from where they come in a stage: from the script's own DataLoaders in most of them."""
        self.batches.keeping, self.batches.replaying = isinstance(stage, KeepBatches), isinstance(stage, FromMemory)
        other = stage if isinstance(stage, LoadWith) else None
        self.loaders.load_with(other.settings if other else None, other.loader if other else -1)
        self._use_threads(other.settings.threads if other else 0)

    def _use_threads(self, threads: int) -> None:
        """Compute with so many threads from now on, or with the script's own number for 0."""
        if threads or self._own_threads:
            own = self._own_threads or torch.get_num_threads()
            torch.set_num_threads(threads or own)
            self._own_threads = own if threads else 0

    def is_of_training(self, number: int) -> bool:
        """Return whether a batch that the DataLoader of this number hands out now is trained on.

        Gradients are switched on then. Some validate with them switched on while they load: such a DataLoader has never
        handed out what a model in training mode was called with, and now the model is in evaluation mode.
        """
        if not torch.is_grad_enabled():
            return False
        return number < 0 or site_of(number) in self._trains or not self._evaluates()

    @property
    def only_validates(self) -> bool:
        """Whether the last batch was loaded to validate, by a DataLoader that nothing was ever trained on."""
        return self.of_validation and site_of(self.asked) not in self._trains

    def trained(self) -> None:
        """Remember that the last batch was trained on."""
        self._trains.add(site_of(self.asked))

    def _ask(self, source: Any) -> None:
        """Note which DataLoader is asked for a batch, given it or its iterator."""
        loader = source if isinstance(source, DataLoader) else loader_of(source)
        self.address = None
        self.asked, self.source = (loader_number(loader), id(loader.dataset)) if loader is not None else (-1, 0)
        if self.in_evaluation and self.is_of_training(self.asked):
            self._clock.validate(False)

    def iterate(self, original: Callable[..., Any], loader: Any) -> Any:
        """`iter(loader)` starts the workers, if there are any."""
        self._audience.tell("on_loader_start", loader)
        if self._is_replaced(loader):
            length = None
            with self._audience:
                length = self.epochs.length(loader)
            return Epoch(lambda: self._in_place_of(loader), lambda: self._begin_epoch(original, loader), length)
        return self._begin_epoch(original, loader)

    def _begin_epoch(self, original: Callable[..., Any], loader: Any) -> Any:
        with self._audience:
            note_handles(loader.dataset)
        iterator = self._clock.call(Phase.DATA_WAIT, original, loader)
        with self._audience:
            for each in (self.epochs, self.batches, self.loaders):
                each.started(loader, iterator)
        return iterator

    def load(self, original: Callable[..., Any], iterator: Any) -> Any:
        """`next(iterator)` waits for a batch, or loads it."""
        self._ask(iterator)
        self._audience.tell("before_batch")
        if (batch := self._audience.handed_over("batch", iterator)) is not None:
            self._got(batch)
            return batch
        is_replaced = self._is_replaced(iterator)
        if (is_replaced or self.epochs.is_replaced(iterator)) and self.epochs.is_over(iterator):
            raise StopIteration
        if is_replaced and (batch := self._in_place_of(iterator)) is not NO_BATCH:
            return batch
        try:
            batch = self._clock.call(Phase.DATA_WAIT, original, iterator)
        except StopIteration:
            with self._audience:
                self.epochs.ended(iterator)
            raise
        with self._audience:
            self.address = next_address(iterator)
        self._got(batch)
        if self.batches.keeping and not self.of_validation:
            with self._audience:
                self.batches.loaded(iterator, batch)
        return batch

    def _is_replaced(self, source: Any) -> bool:
        """Whether something takes the place of a DataLoader or its iterator."""
        return self.batches.replays(source) or self.loaders.are_tried(source)

    def _in_place_of(self, source: Any) -> Any:
        """A batch that replaces the DataLoader's or its iterator's; `NO_BATCH` if nothing replaces it."""
        self._ask(source)
        batch = NO_BATCH
        with self._audience:
            other = self.batches if self.batches.replays(source) else self.loaders
            batch = self._clock.call(Phase.DATA_WAIT, other.batch, source)
        if batch is not NO_BATCH:
            self.epochs.replaced(source)
            self._got(batch)
        return batch

    def _got(self, batch: Any) -> None:
        self.of_validation = not self.is_of_training(self.asked)
        self.in_evaluation = self.of_validation and torch.is_grad_enabled()
        self._audience.tell("on_batch", batch)
        self._on_batch()
