"""The signature of a picture: a few of its values, by which it is recognised wherever it goes; and that of a target.

On the CPU NumPy does the arithmetic, by the tensors' own methods: for so few values, in a tenth of the time.
"""

import functools
from typing import Any

import torch

from workshop.probe.events import MAX_TARGETS, SAMPLES, Signatures

MAX_VALUES_OF_ITEM = 256
"""The number of targets of an item that are looked at, if it has many."""


def signature(values: torch.Tensor) -> Any:
    """Take a few values of each picture in a tensor of shape (..., channels, height, width).

    Returns:
        Float32 values of shape (pictures, channels * SAMPLES): an array of NumPy, or where the tensor is not on the CPU
        a tensor on its device; its copy is not waited for. Bytes become fractions of 255. A tensor that holds no
        pictures, of two dimensions or more than five, counts as one row of values for each item.
    """
    plain = values.detach().as_subclass(torch.Tensor)
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())  # `x.mH` and `x.conj()` are conjugated only when needed
    if plain.ndim < 3 or plain.ndim > 5:
        plain = plain.reshape(len(plain), 1, 1, -1)
    channels, pixels = plain.shape[-3], plain.shape[-1] * plain.shape[-2]
    flat = plain.reshape(-1, channels, pixels)
    if plain.device.type == "cpu" and plain.dtype in (torch.uint8, torch.float32):
        picked = flat.numpy().take(_spots(pixels).numpy(), 2)
        return picked.reshape(-1, channels * SAMPLES) / (_BYTE if plain.dtype == torch.uint8 else _ONE)
    picked = flat[..., _spots_on(pixels, plain.device)].float().reshape(-1, channels * SAMPLES)
    return picked / 255 if plain.dtype == torch.uint8 else picked


def encode(signatures: Any) -> Signatures:
    """Pack signatures for an event; `judge.signatures.values_of` is the way back."""
    values = signatures.cpu().numpy() if isinstance(signatures, torch.Tensor) else signatures
    largest = torch.finfo(torch.float16).max
    half = values.clip(-largest, largest).astype("float16")
    return Signatures(half.shape, half.tobytes())


_BYTE, _ONE = (torch.tensor(value).numpy() for value in (255.0, 1.0))  # of float32, which they leave as it is


@functools.cache
def _spots_on(pixels: int, device: torch.device) -> torch.Tensor:
    """Return the spots on a device: once, as the copy is waited for."""
    return _spots(pixels).to(device)


@functools.cache
def _spots(pixels: int) -> torch.Tensor:
    return torch.tensor([(2 * spot + 1) * pixels // (2 * SAMPLES) for spot in range(SAMPLES)])


def values_of_items(targets: torch.Tensor, items: int) -> tuple[Any, ...]:
    """Return one value for each item, where the first dimension of the targets is that of the items; else all values.

    For several targets of an item, as those of the words of a sentence or the pixels of a picture, it is a sum of some
    of them, weighted so that others hardly come to the same sum.
    """
    if targets.ndim > 1 and len(targets) == items:
        rows = targets.flatten(1)
        rows = rows[:, :: max(1, rows.shape[1] // MAX_VALUES_OF_ITEM)].cpu().double()
        sums = (rows * torch.arange(1.0, rows.shape[1] + 1, dtype=torch.float64).sqrt()).sum(1)
        return tuple(float(f"{value:.6g}") for value in sums[:MAX_TARGETS].tolist())
    return tuple(targets.flatten()[:MAX_TARGETS].tolist())
