"""What is noted of torchvision's random transforms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from workshop.judge.draw_proof import draws_are_shared
from workshop.judge.ledger import Ledger
from workshop.probe import repeated_transforms
from workshop.probe.event_file import EventFile
from workshop.probe.events import PicturesDrawn
from workshop.probe.item_addresses import SeededIndexes
from workshop.probe.item_draws import load_apart
from workshop.probe.messages import MadeAnew, Recomputation
from workshop.probe.repeated_transforms import TransformRecorder
from workshop.probe.transforms import watch_calls

Apply = Callable[..., list[PicturesDrawn]]
PICTURE = torch.zeros(3, 32, 32, dtype=torch.uint8)


@pytest.fixture
def apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apply:
    """Apply some transforms, and return what was noted of them."""
    monkeypatch.setattr(v2.Transform, "__call__", v2.Transform.__call__)  # is put back in the end
    watch_calls(v2.Transform, EventFile(str(tmp_path), also_muted=True), TransformRecorder(str(tmp_path)))

    def apply(transform: Any, *inputs: Any) -> list[PicturesDrawn]:
        transform(*inputs)
        return Ledger.of(tmp_path).draws

    return apply


def test_each_random_transform_has_a_draw_of_its_own(apply: Apply) -> None:
    transform = v2.Compose([v2.ToDtype(torch.float32), v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()])
    one, other = apply(transform, PICTURE)
    assert [one.name, other.name] == ["RandomHorizontalFlip", "RandomVerticalFlip"]
    assert one.draw != other.draw


def test_what_is_inside_of_another_is_noted_too(apply: Apply) -> None:
    assert [each.name for each in apply(v2.RandomApply([v2.RandomCrop(8)], p=1.0), PICTURE)] == [
        "RandomApply",
        "RandomCrop",
    ]


@pytest.mark.parametrize(
    ("picture", "count"),
    [(PICTURE, 1), (torch.zeros(5, 3, 8, 8), 5), (torch.zeros(2, 5, 3, 8, 8), 10), (Image.new("RGB", (9, 9)), 1)],
    ids=["picture", "batch", "videos", "pillow"],
)
def test_the_pictures_that_share_a_draw_are_counted(picture: Any, count: int, apply: Apply) -> None:
    assert [each.pictures for each in apply(v2.RandomCrop(8), picture)] == [count]


def test_the_masks_of_a_picture_that_shows_nothing_are_no_pictures(apply: Apply) -> None:
    assert apply(v2.RandomHorizontalFlip(), torch.zeros(0, 64, 64)) == []


def test_the_draws_are_those_that_would_come_anyway(apply: Apply) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    apply(v2.RandomHorizontalFlip(), PICTURE)
    torch.manual_seed(5)
    noted = apply(v2.RandomHorizontalFlip(), PICTURE)
    assert noted[0].draw == noted[1].draw
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), expected)


class Pictures(Dataset[torch.Tensor]):
    """Pictures that are transformed as they are asked for."""

    def __init__(self, *transforms: v2.Transform) -> None:
        self.transform = v2.Compose(transforms)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(PICTURE)


@pytest.mark.parametrize("is_turned", [False, True])
def test_who_draws_in_the_same_order_shares_the_draws_of_the_same_seed(
    apply: Apply, tmp_path: Path, is_turned: bool
) -> None:
    transforms = v2.RandomHorizontalFlip(), v2.RandomCrop(8)
    loader = DataLoader(Pictures(*transforms), batch_size=4)
    list(load_apart(loader, [SeededIndexes([0, 1, 2, 3], 7)]))
    anew = Ledger.of(tmp_path)
    assert (len(anew.drawn_anew), anew.draws) == (8, [])
    candidate = Pictures(*transforms[:: -1 if is_turned else 1])
    for index in SeededIndexes([0, 1, 2, 3], 7):
        candidate[index]
    ledger = Ledger.of(tmp_path)
    ledger.recomputed = [Recomputation(made=MadeAnew(items=4, is_seeded=True))]
    original = Ledger(draws=ledger.draws, drawn_anew=ledger.drawn_anew)
    assert draws_are_shared(original, ledger) == (not is_turned)


def test_what_is_given_a_target_as_well_or_contains_others_is_not_applied_again(
    apply: Apply, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target may be a mask or boxes, which are transformed with it."""
    monkeypatch.setattr(repeated_transforms, "SHARE", 1.0)
    apply(v2.RandomCrop(8), PICTURE)
    assert len(list(tmp_path.glob("transform-*"))) == 1
    apply(v2.RandomCrop(8), PICTURE, 5)
    assert len(list(tmp_path.glob("transform-*"))) == 1
    apply(v2.RandomApply([v2.RandomCrop(8)], p=1.0), PICTURE)
    assert len(list(tmp_path.glob("transform-*"))) == 2, "the crop alone"
