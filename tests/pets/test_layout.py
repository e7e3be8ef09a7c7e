"""Which files make a set."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from torchvision.datasets import OxfordIIITPet

from workshop.errors import DataError
from workshop.pets.layout import BREEDS, PetFolder, Species, stand_in_folder


def test_breeds_are_the_37_of_the_set() -> None:
    assert len(BREEDS) == 37
    assert [breed.number for breed in BREEDS] == list(range(1, 38))
    assert sum(breed.species is Species.CAT for breed in BREEDS) == 12
    assert [breed.name for breed in BREEDS] == sorted((breed.name for breed in BREEDS), key=str.lower)


def test_torchvision_reads_the_stand_in_as_it_reads_the_photos(data: Path) -> None:
    for split in ("trainval", "test"):
        pets = OxfordIIITPet(data / "stand-in", split, target_types=["category", "binary-category"])
        assert len(pets) == 370
        assert pets.classes == [breed.name.replace("_", " ").title() for breed in BREEDS]
        image, (category, species) = pets[0]
        assert (image.mode, category, species) == ("RGB", 0, 0)


def test_a_whole_set_is_complete(folder: PetFolder, tmp_path: Path) -> None:
    assert folder.exists()
    folder.require_complete()
    assert not stand_in_folder(tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f.images / "pug_1.jpg").unlink(), r"1 missing \(images/pug_1.jpg\)"),
        (lambda f: shutil.rmtree(f.images), r"740 missing \(images/Abyssinian_1.jpg, .*, \.\.\.\)"),
        (lambda f: shutil.rmtree(f.annotations), r"2 missing \(annotations/trainval.txt, annotations/test.txt\)"),
        (lambda f: f.list_file("test").unlink(), r"1 missing \(annotations/test.txt\)"),
        (lambda f: f.list_file("trainval").write_text(""), r"trainval.txt names no picture"),
        (
            lambda f: shutil.rmtree(f.base) or f.base.mkdir(),
            r"2 missing \(annotations/trainval.txt, annotations/test.txt\)",
        ),
        (lambda f: f.list_file("test").write_text("pug_11 26 2 18\npug_12 26"), r"test.txt, line 2 is not 'image-id"),
        (lambda f: f.list_file("test").write_text("pug_11 0 2 18"), r"test.txt, line 1 is not 'image-id"),
        (lambda f: f.list_file("test").write_text("pug_11 38 2 18"), r"test.txt, line 1 is not 'image-id"),
        (lambda f: f.list_file("test").write_bytes(b"pug_\xff 26 2 18"), r"test.txt cannot be read \('utf-8' codec"),
    ],
)
def test_what_is_missing_is_named_with_a_remedy(
    folder: PetFolder, damage: Callable[[PetFolder], object], message: str
) -> None:
    damage(folder)
    assert folder.exists()
    with pytest.raises(DataError, match=message + ".*; restore it, or delete .* and run `workshop data make --data"):
        folder.require_complete()
