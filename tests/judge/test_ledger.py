"""A picture is recognised by its signature wherever it goes, and only there."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from workshop.judge.ledger import Ledger
from workshop.judge.signatures import SAME_PICTURE, distance, unit, values_of
from workshop.pets.layout import stand_in_folder
from workshop.probe.events import PhotoRead, SimpleTransform, TransformCall
from workshop.probe.signature import encode, signature


@pytest.fixture(scope="module")
def photo(data: Path) -> Image.Image:
    path = sorted(stand_in_folder(data).images.glob("*.jpg"))[0]
    return Image.open(path).convert("RGB")


def sign(picture: object) -> np.ndarray:
    """As it comes out of an event."""
    [row] = unit(values_of(encode(signature(picture))))
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
    assert distance(sign(v2.Compose([v2.ToImage(), *kept])(photo))[None], sign(photo))[0] < SAME_PICTURE


@pytest.mark.parametrize(
    "changed",
    [v2.RandomHorizontalFlip(1.0), v2.RandomInvert(1.0), v2.CenterCrop(300), v2.RandomRotation((5, 5))],
    ids=["flip", "invert", "crop", "rotation"],
)
def test_what_makes_another_picture(changed: v2.Transform, photo: Image.Image) -> None:
    assert distance(sign(changed(photo))[None], sign(photo))[0] > 2 * SAME_PICTURE


def test_two_crops_of_a_photo_differ(photo: Image.Image) -> None:
    torch.manual_seed(0)
    crop = v2.Compose([v2.ToImage(), v2.RandomResizedCrop(64)])
    crops = np.stack([sign(crop(photo)) for _ in range(20)])
    closest = [np.partition(distance(crops, one), 1)[1] for one in crops]
    assert min(closest) > 2 * SAME_PICTURE


def test_a_picture_is_followed_from_the_model_to_its_file() -> None:
    """Decoded in one process, kept, and augmented later in another."""
    dice = np.random.default_rng(0)
    raw, small, cropped, other = (unit(dice.normal(size=(1, 192)).astype(np.float32)) for _ in range(4))
    resize, crop = SimpleTransform("Resize", {}, (9, 9)), SimpleTransform("RandomCrop", {}, (5, 5))
    transforms = [
        TransformCall(2.0, 1, 1, (resize,), encode(raw), encode(small)),
        TransformCall(9.0, 2, 1, (crop,), encode(small), encode(cropped)),
    ]
    reads = [PhotoRead(t, pid, 1, f"{name}.jpg", 0.1) for t, pid, name in ((1.0, 1, "a"), (1.5, 2, "b"), (3.0, 1, "c"))]
    ledger = Ledger(reads=reads, transforms=transforms)
    history = ledger.histories.of(cropped[0], before=10.0)
    # The process that augmented had opened b.jpg before, but what it augmented came out of a.jpg.
    assert (history.photo, history.simple, history.shared_by) == ("a.jpg", [crop, resize], 1)
    assert not ledger.histories.of(other[0], before=10.0).way
    assert not ledger.histories.of(cropped[0], before=8.0).way, "made later than that"
