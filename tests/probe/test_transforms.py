"""What is noted of a transform: how far it moved the picture, and whether anything else has changed it in between."""

import pickle
import threading
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import v2

from workshop.judge.ledger import Ledger
from workshop.judge.picture_history import Hop
from workshop.judge.signatures import line_after, values_of
from workshop.judge.transform_proof import SAME_RESULT, check_repeated
from workshop.probe import transforms
from workshop.probe.event_file import EventFile
from workshop.probe.events import TransformCall
from workshop.probe.messages import Repetition
from workshop.probe.transforms import TransformRecorder, repeat


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
    monkeypatch.setattr(transforms, "SHARE", 1.0)
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


PICTURE = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)

Record = Callable[..., Repetition]


class Nearest(v2.RandomResizedCrop):
    def transform(self, image: Any, params: dict[str, Any]) -> Any:
        mode = v2.InterpolationMode.NEAREST
        return v2.functional.resized_crop(image, **params, size=self.size, interpolation=mode)

    _transform = transform  # its name before torchvision 0.21


class RandomOwn(torch.nn.Module):
    def forward(self, image: Any) -> Any:
        return image


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Apply a transform to a picture, record it, and apply it again."""
    monkeypatch.setattr(transforms, "SHARE", 1.0)
    recorder = TransformRecorder(str(tmp_path))

    def record(transform: Any, picture: Any) -> Repetition:
        for _ in range(5):
            begun = recorder.chosen(picture)
            assert begun
            recorder.record(transform, begun, transform(picture))
        found = [repeat(path) for path in sorted(tmp_path.glob("transform-*.pickle"))]
        assert len(found) == 5
        return max(found, key=lambda each: each.difference)

    return record


@pytest.mark.parametrize(
    "transform",
    [
        v2.AutoAugment(),
        v2.RandomResizedCrop(16, scale=(0.2, 0.9), interpolation=v2.InterpolationMode.BICUBIC),
        v2.RandomErasing(1.0, inplace=True),
        v2.ColorJitter(0.5, hue=0.1),
        v2.RandomCrop(20, padding=(1, 2, 3, 4)),
        v2.RandAugment(),
        v2.RandomRotation((-40, 40), fill=3),
        v1.AutoAugment(),
        v1.RandomAffine(30, translate=(0.1, 0.2)),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_what_is_torchvisions_comes_out_the_same(transform: Any, record: Record) -> None:
    found = record(transform, torch.from_numpy(PICTURE.copy()).permute(2, 0, 1))
    assert (found.name, found.difference, found.error) == (type(transform).__name__, 0.0, None)


def test_a_pillow_image(record: Record) -> None:
    assert record(v2.RandomResizedCrop(16), Image.fromarray(PICTURE)).difference == 0.0


def test_a_subclass_is_held_to_what_it_is_a_subclass_of(record: Record) -> None:
    found = record(Nearest(16), torch.from_numpy(PICTURE.copy()).permute(2, 0, 1))
    assert found.name == "RandomResizedCrop"
    assert found.difference > SAME_RESULT
    assert not found.threads


def test_policies_that_are_left_out(record: Record) -> None:
    transform = v2.AutoAugment()
    transform._policies = [(("Invert", 1.0, None), ("Invert", 1.0, None))] * 25
    assert record(transform, torch.from_numpy(PICTURE.copy()).permute(2, 0, 1)).difference > SAME_RESULT


def test_a_transform_of_ones_own_cannot_be_applied_again(record: Record) -> None:
    assert record(RandomOwn(), torch.zeros(3, 4, 4)).error == "RandomOwn: it is none of torchvision's"


def test_nothing_foreign_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "transform-1-1.pickle"
    path.write_bytes(pickle.dumps(threading.Thread))
    assert repeat(path).error == "UnpicklingError: threading.Thread is none of torchvision's"


@pytest.mark.parametrize(
    ("differences", "threads", "differing"),
    [
        ([0.001] * 10, False, []),
        ([0.0] * 9 + [0.3], False, [1]),
        ([0.0] * 8 + [0.3] * 2, True, []),
        ([0.0] * 4 + [0.3] * 6, True, [6]),
    ],
)
def test_threads_share_a_generator(differences: list[float], threads: bool, differing: list[int]) -> None:
    candidate = Ledger(repeated=[Repetition("RandomCrop", each, threads) for each in differences])
    found = list(check_repeated(Ledger(), candidate))
    assert [each.figures["differing"] for each in found] == differing


def test_what_could_not_be_applied_again_is_no_accusation() -> None:
    [found] = check_repeated(Ledger(), Ledger(repeated=[Repetition(error="no memory")] * 2))
    assert found.is_unseen


def test_what_the_original_does_otherwise_itself_is_not_asked_for() -> None:
    failed, other = Repetition(error="no memory"), Repetition("RandomCrop", 0.3)
    both = Ledger(repeated=[failed, other])
    assert list(check_repeated(both, both)) == []
    [found] = check_repeated(both, Ledger(repeated=[other, Repetition("RandomErasing", 0.3)]))
    assert found.about == ("RandomErasing",)
