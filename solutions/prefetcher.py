"""An iterator that copies batches to the device before they are needed."""

from collections.abc import Iterable, Iterator

import torch

Batch = tuple[torch.Tensor, ...]


class Prefetcher:
    """An iterable over the batches of `loader` that copies each to `device` while the one before it is used.

    On CUDA the copies run on a stream of their own, beside the kernels. They do so only from pinned memory
    (`DataLoader(..., pin_memory=True)`) and not under CUDA_LAUNCH_BLOCKING=1, where every call waits for the device.
    Elsewhere the order of calls is the same, without pinning and streams.

    Args:
        loader: yields tuples or lists of tensors.
        device: the device that the batches are copied to.
    """

    def __init__(self, loader: Iterable[Batch], device: torch.device) -> None:
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        batches = iter(self.loader)
        following = self._copy(next(batches, None))
        while following is not None:
            current = self._arrived(following)
            # The next copy is queued before the current batch is handed out: the training loop may wait for the device,
            # as in loss.item(), and a copy that is queued after that overlaps with nothing.
            following = self._copy(next(batches, None))
            yield current

    def _copy(self, batch: Batch | None) -> Batch | None:
        """Begin to copy a batch, without waiting for the copy."""
        if batch is None:
            return None
        with torch.cuda.stream(self.stream):  # without a stream, this does nothing
            return tuple(tensor.to(self.device, non_blocking=True) for tensor in batch)

    def _arrived(self, batch: Batch) -> Batch:
        """Make the stream that computes wait for the copy; the program itself does not wait."""
        if self.stream is not None:
            computing = torch.cuda.current_stream(self.device)
            computing.wait_stream(self.stream)
            for tensor in batch:
                # The memory belongs to the side stream, which may reuse it as soon as the tensor is deleted, but not
                # before the kernels that read it have run.
                tensor.record_stream(computing)
        return batch
