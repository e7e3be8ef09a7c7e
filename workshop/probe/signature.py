"""The signature of a picture: a few of its values, by which it is recognised wherever it goes."""

import base64
import functools
from typing import Any

import torch

from workshop.probe.wire import SAMPLES, Signatures


def is_picture(value: Any) -> bool:
    """Return whether a value is a Pillow image, or a tensor with height and width."""
    if hasattr(value, "getpixel"):
        return True
    return hasattr(value, "ndim") and hasattr(value, "detach") and value.ndim >= 3


def size_of(picture: Any) -> tuple[int, int]:
    """Return a picture's height and width in pixels."""
    return picture.size[::-1] if hasattr(picture, "getpixel") else tuple(picture.shape[-2:])


def signature(values: Any) -> torch.Tensor:
    """Take a few values of each picture in a tensor of shape (..., channels, height, width), or of a Pillow image.

    Returns:
        A float32 tensor of shape (pictures, channels * SAMPLES), on the tensor's device; its copy is not waited for. A
        tensor that holds no pictures, of two dimensions or more than five, counts as one row of values for each item.
    """
    if hasattr(values, "getpixel"):
        width, height = values.size
        spots = [divmod(spot, width) for spot in _spots(width * height)]
        pixels = torch.tensor([values.getpixel((x, y)) for y, x in spots], dtype=torch.float32)
        return pixels.reshape(SAMPLES, -1).T.reshape(1, -1)
    with torch.no_grad():
        plain = values.detach().as_subclass(torch.Tensor)
        if plain.is_complex():
            plain = torch.view_as_real(plain)
        if plain.ndim < 3 or plain.ndim > 5:
            plain = plain.reshape(len(plain), 1, 1, -1)
        spots_of_all = torch.tensor(_spots(plain.shape[-1] * plain.shape[-2]), device=plain.device)
        picked = plain.flatten(-2)[..., spots_of_all]
        return picked.reshape(-1, picked.shape[-2] * SAMPLES).float()


def distances(some: torch.Tensor, others: torch.Tensor) -> list[float]:
    """Return the root mean square differences between signatures of unit variance, rounded; none if shapes differ."""
    if some.shape != others.shape:
        return []
    difference = (_unit(some) - _unit(others)).flatten(1)
    return [round(each, 3) for each in difference.square().mean(1).sqrt().tolist()]


def _unit(signatures: torch.Tensor) -> torch.Tensor:
    """Scale signatures to mean 0 and variance 1 in each channel; a flat channel becomes 0."""
    channels = signatures.reshape(len(signatures), -1, SAMPLES)
    centred = channels - channels.mean(2, keepdim=True)
    return centred / centred.std(2, correction=0, keepdim=True).clamp_min(1e-6)


def encode(signatures: torch.Tensor) -> Signatures:
    """Pack signatures for an event; `judge.ledger.decode` is the way back."""
    half = signatures.to("cpu", torch.float16).contiguous().numpy()
    return Signatures(half.shape, base64.b64encode(half.tobytes()).decode())


@functools.cache
def _spots(pixels: int) -> list[int]:
    return [(2 * spot + 1) * pixels // (2 * SAMPLES) for spot in range(SAMPLES)]
