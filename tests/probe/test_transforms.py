"""What is noted of a transform: how far it moved the picture, and whether anything else has changed it in between."""

from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from workshop.judge.ledger import Ledger
from workshop.judge.picture_history import Hop
from workshop.judge.signatures import line_after, values_of
from workshop.probe import recorded_transform, transforms
from workshop.probe.event_file import EventFile
from workshop.probe.events import TransformCall


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TransformCall]]:
    """Apply some transforms to a picture, and return what was noted of them."""
    monkeypatch.setattr(v2.Transform, "__call__", v2.Transform.__call__)  # is put back in the end
    transforms.TransformWatch(EventFile(str(tmp_path))).wrap(v2.Transform)

    def apply(*some: Callable[[torch.Tensor], torch.Tensor]) -> TransformCall:
        torch.manual_seed(0)
        v2.Compose(some)(torch.randint(256, (3, 32, 32), dtype=torch.uint8))
        return Ledger.of(tmp_path).transforms[-1]

    return apply


def of_one_picture(made: TransformCall) -> Hop:
    return Hop(0, made, 0, values_of(made.after)[0])


def mirror_in_place(picture: torch.Tensor) -> torch.Tensor:
    return picture.copy_(picture.flip(-1))


def test_each_random_transform_has_a_draw_of_its_own(applied: Callable[..., TransformCall]) -> None:
    made = applied(v2.ToDtype(torch.float32), v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(0.0))
    to_float, flipped, kept = made.simple
    assert (to_float.draw, to_float.left) == ("", None)
    assert flipped.draw != kept.draw
    assert made.decoded
    assert flipped.left
    assert kept.left == made.after
    assert not of_one_picture(made).has_gap


@pytest.mark.parametrize("between", [lambda picture: picture.flip(-1), mirror_in_place])
def test_what_is_done_between_transforms_is_a_gap(
    between: Callable[[torch.Tensor], torch.Tensor], applied: Callable[..., TransformCall]
) -> None:
    """The first random transform has been at work by then: before, only what enters it is looked at."""
    flip, crop = v2.RandomHorizontalFlip(0.0), v2.RandomCrop(8)
    assert of_one_picture(applied(flip, v2.ToDtype(torch.float32), between)).has_gap
    assert of_one_picture(applied(flip, between, v2.ToDtype(torch.float32), crop)).has_gap
    scaled = of_one_picture(applied(flip, lambda picture: picture / 51 - 0.5, crop))
    assert not scaled.has_gap
    assert np.allclose(reduce(line_after, scaled.lines), [[5.0, -0.5]] * 3, atol=0.01)


def test_what_is_given_a_target_as_well_is_not_recorded(
    applied: Callable[..., TransformCall], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target may be a mask or boxes, which are transformed with it."""
    monkeypatch.setattr(recorded_transform, "SHARE", 1.0)
    applied(v2.RandomCrop(8))
    assert len(list(tmp_path.glob("transform-*"))) == 1
    v2.RandomCrop(8)(torch.zeros(3, 32, 32), 5)
    assert len(list(tmp_path.glob("transform-*"))) == 1


def test_what_is_made_of_the_values_of_each_channel(applied: Callable[..., TransformCall]) -> None:
    to_float = v2.ToDtype(torch.float32, scale=True)
    normalise = v2.Normalize([0.5, 0.4, 0.3], [0.1, 0.2, 0.5])
    made = of_one_picture(applied(v2.RandomHorizontalFlip(0.0), to_float, normalise))
    found = reduce(line_after, made.lines)
    assert np.allclose(found, [[10.0, -5.0], [5.0, -2.0], [2.0, -0.6]], atol=0.01), "bytes are fractions of 255"
