"""The drawn pictures."""

import hashlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
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
from workshop.pets.staging import staging_folder


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


DRAW = """
import time
from pathlib import Path
from workshop.pets import stand_in
from workshop.pets.ensure import ensure_stand_in
stand_in.NUMBERS = {"trainval": [1], "test": [2]}
draw = stand_in.draw
def draw_when_told(breed, number):
    while number == 2 and not Path("go on").exists(): time.sleep(0.01)
    return draw(breed, number)
stand_in.draw = draw_when_told
ensure_stand_in(Path("datasets"))
"""


@pytest.fixture
def drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has drawn half of a small set, until the file "go on" is there; this one would draw as few."""
    monkeypatch.setattr(stand_in, "NUMBERS", {"trainval": [1], "test": [2]})
    with subprocess.Popen([sys.executable, "-c", DRAW], cwd=tmp_path, stderr=subprocess.PIPE) as process:
        try:
            while not list(tmp_path.glob("datasets/.stand-in.partial/oxford-iiit-pet/images/*.jpg")):
                assert process.poll() is None
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


def test_what_a_killed_run_leaves_is_no_set_and_in_nobodys_way(
    drawing: "subprocess.Popen[bytes]", workshop: Run, tmp_path: Path
) -> None:
    drawing.kill()
    drawing.wait()
    folder = stand_in_folder(tmp_path / "datasets")
    assert not folder.exists()

    folder.root.mkdir()
    (folder.root / ".DS_Store").write_text("")
    assert workshop("data", "make").returncode == 0
    folder.require_complete()
    assert not list((tmp_path / "datasets").glob(".stand-in.partial/**/*.jpg"))


def test_two_at_once_draw_one_set(
    drawing: "subprocess.Popen[bytes]",
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one goes on when this one is about to wait for it."""
    go_on = tmp_path / "go on"
    monkeypatch.setattr(stand_in, "staging_folder", lambda *of, **how: go_on.touch() or staging_folder(*of, **how))
    ensure_stand_in(tmp_path / "datasets")
    _, errors = drawing.communicate()
    assert drawing.returncode == 0
    assert [b"Drawing" in errors, "Drawing" in capfd.readouterr().err] == [True, False]
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
