"""The pets as a dataset."""

import pickle
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from workshop.errors import DataError
from workshop.pets.dataset import OxfordPets, balanced_subset
from workshop.pets.layout import PetFolder


@pytest.mark.parametrize(("max_items", "most", "fewest"), [(37, 1, 1), (50, 2, 1)])
def test_a_subset_is_as_equal_as_can_be_over_the_classes(data: Path, max_items: int, most: int, fewest: int) -> None:
    pets = OxfordPets(data / "stand-in", max_items=max_items)
    assert len(pets) == max_items
    counts = Counter(pets[index][1] for index in range(len(pets)))
    assert (len(counts), max(counts.values()), min(counts.values())) == (37, most, fewest)
    assert pets.kept == OxfordPets(data / "stand-in", max_items=max_items).kept


def test_unequal_classes_give_what_they_have() -> None:
    labels = [0, 0, 0, 0, 1, 2, 2]
    assert balanced_subset(labels, 5) == [0, 1, 4, 5, 6]
    assert balanced_subset(labels, 6) == [0, 1, 2, 4, 5, 6]
    assert balanced_subset(labels, 2) == [0, 4]
    assert balanced_subset([1, 0, 1, 0], 1) == [1]  # the class with the lowest number comes first
    assert balanced_subset(labels, 99) == balanced_subset(labels, None) == list(range(7))


def test_the_files_are_named_without_the_place_they_lie_in(data: Path, folder: PetFolder) -> None:
    here, there = (OxfordPets(root, max_items=3) for root in (data / "stand-in", folder.root))
    assert here.files() == there.files()
    names = ["Abyssinian_1.jpg", "american_bulldog_1.jpg", "american_pit_bull_terrier_1.jpg"]
    assert [name for name, _ in here.files()] == names
    (folder.images / names[0]).unlink()
    (folder.images / names[0]).write_bytes(b"another picture")
    assert here.files() != there.files()


def test_it_pickles_for_spawned_workers(data: Path) -> None:
    pets = OxfordPets(data / "stand-in", max_items=3)
    again = pickle.loads(pickle.dumps(pets))
    assert [label for _, label in (again[index] for index in range(3))] == [pets[index][1] for index in range(3)]


@pytest.mark.parametrize("content", [b"", b"no picture", None], ids=["empty", "text", "cut off"])
def test_a_damaged_picture_is_named(folder: PetFolder, content: bytes | None) -> None:
    path = folder.images / "Abyssinian_1.jpg"
    content = path.read_bytes()[:20_000] if content is None else content
    path.unlink()  # it is a link
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"Abyssinian_1.jpg cannot be read as a picture"):
        OxfordPets(folder.root)[0]


def test_an_error_of_the_transform_stays_what_it_is(data: Path) -> None:
    def broken(image: Image.Image) -> None:
        raise OSError("not the picture's fault")

    with pytest.raises(OSError, match="not the picture's fault"):
        OxfordPets(data / "stand-in", transform=broken)[0]
