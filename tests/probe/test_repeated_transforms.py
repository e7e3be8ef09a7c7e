"""Random transforms that are applied again in another process give the same, if they are torchvision's."""

import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import v2

from workshop.judge.draw_proof import SAME_RESULT, check_repeated
from workshop.judge.ledger import Ledger
from workshop.probe import repeated_transforms
from workshop.probe.messages import Repetition
from workshop.probe.repeated_transforms import TransformRecorder, repeat

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
    monkeypatch.setattr(repeated_transforms, "SHARE", 1.0)
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
