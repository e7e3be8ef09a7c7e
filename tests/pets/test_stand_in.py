"""The drawn pictures."""

import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from conftest import Run
from PIL import Image, JpegImagePlugin

from workshop.errors import DataError
from workshop.pets import stand_in
from workshop.pets.ensure import ensure_stand_in
from workshop.pets.layout import BREEDS, SPLITS, PetFolder, stand_in_folder


def test_pixels_are_the_same_on_every_machine() -> None:
    """One picture of every breed, which is every pattern, species and most sizes: a change here is a new data set."""
    pixels = hashlib.sha256()
    for breed in BREEDS:
        pixels.update(np.ascontiguousarray(stand_in.draw(breed, breed.number)).tobytes())
    assert pixels.hexdigest() == "f0d2544ab83c861a01de7d46e8a2ad120b4bdbdf3947e12f6805085500e03862"


def test_pictures_are_as_large_as_the_photos_and_different(data: Path) -> None:
    """The real set's photos have a mean of about 100 KB and are mostly 500 x 375, in 4:4:4."""
    paths = sorted(stand_in_folder(data).images.iterdir())
    assert 80_000 < mean(path.stat().st_size for path in paths) < 120_000
    assert len({hashlib.sha256(path.read_bytes()).digest() for path in paths}) == len(paths) == 740
    with Image.open(paths[0]) as image:
        assert image.size in stand_in.SIZES
        assert JpegImagePlugin.get_sampling(image) == 0


def test_every_breed_has_ten_pictures_in_each_split_and_none_in_both(data: Path) -> None:
    trainval, test = (stand_in_folder(data).image_ids(split) for split in SPLITS)
    for ids in (trainval, test):
        assert Counter(image_id.rpartition("_")[0] for image_id in ids) == {breed.name: 10 for breed in BREEDS}
    assert not set(trainval) & set(test)


DRAW = "from pathlib import Path; from workshop.pets.ensure import ensure_stand_in; ensure_stand_in(Path('datasets'))"
DRAW_FEWER = "from workshop.pets import stand_in; stand_in.NUMBERS = {'trainval': [1, 2], 'test': [3, 4]}; " + DRAW


def test_what_a_killed_run_leaves_is_no_set_and_in_nobodys_way(
    workshop: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    images = tmp_path / "datasets" / ".stand-in.partial" / "oxford-iiit-pet" / "images"
    with subprocess.Popen([sys.executable, "-c", DRAW], cwd=tmp_path, stderr=subprocess.DEVNULL) as drawing:
        while not (images.is_dir() and len(os.listdir(images)) > 20):
            assert drawing.poll() is None
            time.sleep(0.01)
        drawing.kill()
    folder = stand_in_folder(tmp_path / "datasets")
    assert not folder.exists()

    folder.root.mkdir()
    (folder.root / ".DS_Store").write_text("")
    monkeypatch.setattr(stand_in, "NUMBERS", {"trainval": [1], "test": [2]})
    assert workshop("data", "make").returncode == 0
    folder.require_complete()
    assert not images.exists()


def test_two_at_once_draw_one_set(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DRAW_FEWER]
    both = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate()[1].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert ["Drawing" in error for error in errors].count(True) == 1
    stand_in_folder(tmp_path / "datasets").require_complete()


def test_a_disk_without_room_is_a_line_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    """A limit on the size of a file stops the write in the middle, as a full disk does, and needs no full disk."""
    pytest.importorskip("resource")
    limited = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (40_000, 40_000)); import workshop.__main__"
    made = run("-c", limited, "data", "make")
    assert made.returncode == 2
    last_line = made.stderr.replace("\r", "\n").splitlines()[-1]
    assert last_line.startswith("no room for datasets/stand-in/oxford-iiit-pet: File too large; ")
    assert "Traceback" not in made.stderr
    assert [path.name for path in (tmp_path / "datasets").iterdir() if not path.name.endswith(".lock")] == []


def test_an_incomplete_stand_in_is_never_fixed_silently(folder: PetFolder, tmp_path: Path) -> None:
    (folder.images / "beagle_1.jpg").unlink()
    with pytest.raises(DataError, match=r"beagle_1\.jpg"):
        ensure_stand_in(tmp_path)
    assert not (folder.images / "beagle_1.jpg").exists()
