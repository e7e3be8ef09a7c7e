"""Notes what torchvision's random transforms begin to draw with, and for how many pictures at once."""

import functools
import sys
from enum import Enum
from typing import Any

import torch
from torch import nn

from workshop.probe.event_file import EventFile, is_muted
from workshop.probe.events import PicturesDrawn
from workshop.probe.repeated_transforms import TransformRecorder, settings_of

DRAWN_NUMBERS = 4
"""So many of the numbers that a random transform may draw are noted. They also name the generator's state."""

RANDOM = tuple("Rand AutoAugment TrivialAugment AugMix ColorJitter ScaleJitter Gaussian Elastic JPEG".split())
"""The names of torchvision's random transforms begin with one of these."""

_PLAIN = (int, float, str, tuple, list, Enum)
"""The classes of settings that are the same in another process."""


def watch_transforms(v2: Any, folder: str) -> None:
    """Watch every transform of torchvision, given torchvision.transforms.v2; where items are made anew, too."""
    events, recorder = EventFile(folder, also_muted=True), TransformRecorder(folder)
    watch_calls(v2.Transform, events, recorder)
    v1 = sys.modules["torchvision.transforms"]  # the parent of v2, which is loaded before it
    for name in v1.transforms.__all__ + v1.autoaugment.__all__:
        if isinstance(of_v1 := getattr(v1, name), type) and issubclass(of_v1, nn.Module):
            watch_calls(of_v1, events, recorder)


def watch_calls(of: type, events: EventFile, recorder: TransformRecorder) -> None:
    """Watch the calls of instances of a class that is called as every module is."""

    @functools.wraps(nn.Module.__call__)
    def watched(transform: Any, *inputs: Any, **options: Any) -> Any:
        name, begun = type(transform).__name__, None
        if inputs and name.startswith(RANDOM) and (pictures := _pictures(inputs[0])):
            settings = {name: _as_text(of) for name, of in settings_of(transform).items() if isinstance(of, _PLAIN)}
            about = {"pictures": pictures, "size": _size(inputs[0]), "settings": settings}
            about |= {"draw": next_numbers(), "is_anew": is_muted()}
            events.write(PicturesDrawn, name=name, **about)
            is_alone = len(inputs) == 1 and not options  # nothing but the picture
            begun = recorder.chosen(inputs[0]) if is_alone and not hasattr(transform, "transforms") else None
        result = nn.Module.__call__(transform, *inputs, **options)
        if begun:
            recorder.record(transform, begun, result)
        return result

    of.__call__ = watched  # type: ignore[method-assign]


def next_numbers() -> str:
    """Return the next numbers of 32 bits that torch's random generator gives out, as hexadecimal digits."""
    generator = torch.Generator()
    generator.set_state(torch.get_rng_state())
    pairs = torch.empty(DRAWN_NUMBERS // 2, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return "".join(f"{pair % 2**64:016x}" for pair in pairs.tolist())


def _as_text(value: Any) -> str:
    """A setting as text; an enumeration reads as its value, a list as a tuple."""
    value = getattr(value, "value", value)
    return str(tuple(value) if isinstance(value, list) else value)


def _size(picture: Any) -> tuple[int, int]:
    """Return a picture's height and width in pixels."""
    height, width = picture.shape[-2:] if isinstance(picture, torch.Tensor) else picture.size[::-1]
    return height, width


def _pictures(value: Any) -> int:
    """Return how many pictures a Pillow image or a tensor with height and width is; 0 for all else."""
    if not isinstance(value, torch.Tensor):
        return int(hasattr(value, "getpixel"))
    return value.shape[:-3].numel() if value.ndim >= 3 and value.numel() else 0
