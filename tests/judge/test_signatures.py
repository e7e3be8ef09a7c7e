"""A picture is recognised by its signature wherever it goes, and only there."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from workshop.judge.signatures import is_same, values_of
from workshop.pets.layout import stand_in_folder
from workshop.probe.signature import encode, signature


@pytest.fixture(scope="module")
def photo(data: Path) -> Image.Image:
    path = sorted(stand_in_folder(data).images.glob("*.jpg"))[0]
    return Image.open(path).convert("RGB")


def sign(picture: Any) -> np.ndarray:
    """As it comes out of an event."""
    [row] = values_of(encode(signature(v2.functional.to_image(picture))))
    return row


FLOAT = v2.ToDtype(torch.float32, scale=True)


@pytest.mark.parametrize(
    "kept",
    [
        [],
        [FLOAT],
        [FLOAT, v2.Normalize([0.5, 0.4, 0.3], [0.1, 0.2, 0.3])],
        [FLOAT, v2.ToDtype(torch.bfloat16)],
        [lambda image: image[None].expand(2, -1, -1, -1)[1]],
        [lambda image: image[None].contiguous(memory_format=torch.channels_last)],
    ],
    ids=["uint8", "float", "normalised", "bfloat16", "view", "channels last"],
)
def test_what_keeps_a_picture_the_same(kept: list[v2.Transform], photo: Image.Image) -> None:
    assert is_same(sign(v2.Compose([v2.ToImage(), *kept])(photo)), sign(photo))


@pytest.mark.parametrize(
    "changed",
    [v2.RandomHorizontalFlip(1.0), v2.RandomInvert(1.0), v2.CenterCrop(300), v2.RandomRotation((5, 5))],
    ids=["flip", "invert", "crop", "rotation"],
)
def test_what_makes_another_picture(changed: v2.Transform, photo: Image.Image) -> None:
    assert not is_same(sign(changed(photo)), sign(photo))


def test_two_crops_of_a_photo_differ(photo: Image.Image) -> None:
    torch.manual_seed(0)
    crop = v2.Compose([v2.ToImage(), v2.RandomResizedCrop(64)])
    crops = [sign(crop(photo)) for _ in range(20)]
    assert not any(is_same(*both) for both in combinations(crops, 2))
