"""Draws the stand-in: pictures that take the place of the Oxford-IIIT Pets where they cannot be downloaded.

Each picture is a cat or a dog in a coat that only its breed wears: two colours in a pattern. It is about as large as a
photo of the real set and takes as long to decode, and a small network can learn to tell the breeds apart.

The pixels are the same on every machine, because all arithmetic is on integers and random numbers come from NumPy's
RandomState, whose stream is frozen. (Sines, exponentials and the newer Generator may differ between machines.)
"""

import os
import shutil
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from workshop.errors import DISK_FULL
from workshop.pets.layout import BREEDS, Breed, PetFolder, Species
from workshop.pets.staging import progress_bar, staging_folder

NUMBERS = {"trainval": range(1, 11), "test": range(11, 21)}
"""The numbers of the pictures of each breed, for each of the two splits."""

SIZES = ((500, 375), (375, 500), (500, 333))
"""The widths and heights in pixels that are most frequent in the real set."""

JPEG = {"quality": 90, "subsampling": 0}
"""The encoder settings that give files of about 100 KB, in 4:4:4 as most of the real photos are."""

Line = NDArray[np.int32]  # the pixels' column numbers (width) or row numbers (height x 1)
Plane = NDArray[np.int16]  # height x width
Mask = NDArray[np.bool_]  # height x width
Picture = NDArray[np.int16]  # 3 x height x width: NumPy is several times faster with the colours in front
Colour = tuple[int, int, int]  # red, green, blue, 0 to 255


def make(folder: PetFolder) -> None:
    """Draw the whole stand-in into a folder, unless another process has just done so.

    Raises:
        OSError: the folder cannot be written, or the disk is full; the pictures drawn by then are deleted.
    """
    with staging_folder(folder.root.parent, folder.root.name, wait=True) as staging:
        try:
            if not folder.exists():
                shutil.rmtree(staging)  # a killed run may have left pictures
                _draw_all(PetFolder(staging, folder.command))
                folder.root.mkdir(exist_ok=True)
                os.rename(staging / folder.base.name, folder.base)
        except OSError as error:
            if error.errno in DISK_FULL:
                error.filename = str(folder.base)  # the error of a full disk names no file
            raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _draw_all(folder: PetFolder) -> None:
    folder.images.mkdir(parents=True)
    folder.annotations.mkdir()

    def save(breed: Breed, number: int) -> None:
        Image.fromarray(draw(breed, number)).save(folder.images / f"{breed.name}_{number}.jpg", "JPEG", **JPEG)

    Image.preinit()  # threads that each load Pillow's plugins for the first time may wait for each other for ever
    # Threads are enough: NumPy and the JPEG encoder let go of the interpreter lock while they compute.
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        pictures = [(breed, number) for numbers in NUMBERS.values() for breed in BREEDS for number in numbers]
        jobs = [pool.submit(save, breed, number) for breed, number in pictures]
        for job in progress_bar(jobs, desc=f"Drawing {len(jobs)} pictures in place of the photos", unit=""):
            job.result()
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C and a full disk must not wait for the remaining pictures
    for split, numbers in NUMBERS.items():
        lines = [
            f"{breed.name}_{number} {breed.number} {breed.species:d} {breed.number_in_species}\n"
            for breed in BREEDS
            for number in numbers
        ]
        folder.list_file(split).write_text("".join(lines))


def draw(breed: Breed, number: int) -> NDArray[np.uint8]:
    """Return a picture of a breed before it is encoded: height x width x 3, uint8, RGB."""
    random = np.random.RandomState(zlib.crc32(f"{breed.name}_{number}".encode()))
    width, height = SIZES[_integers(random, 0, len(SIZES))]
    x, y = np.arange(width, dtype=np.int32), np.arange(height, dtype=np.int32)[:, None]

    clouds = _clouds(random, height, width)
    picture = _background(random, y, clouds)
    coat = _coat(breed.number - 1, x, y, clouds)
    for mask, colour in _pet(random, breed.species, x, y):
        np.copyto(picture, coat if colour is None else _rgb(colour), where=mask)
    # Grain like a camera's makes the JPEG as large, and as slow to decode, as that of a photo.
    grain = np.frombuffer(random.bytes(height * width), np.uint8).reshape(height, width)
    picture += (grain >> 3).astype(np.int16) - 16
    return np.ascontiguousarray(picture.clip(0, 255).astype(np.uint8).transpose(1, 2, 0))


def _integers(random: np.random.RandomState, low: int, high: int, shape: tuple[int, ...] | None = None) -> Any:
    """Return random integers from `low` to below `high`; the type is part of the stream, NumPy's differs on Windows."""
    return random.randint(low, high, shape, dtype=np.int32)


def _clouds(random: np.random.RandomState, height: int, width: int) -> Plane:
    """Return smooth random blotches, 0 to 255: a random grid of 32-pixel cells, interpolated linearly."""
    grid = _integers(random, 0, 256, (height // 32 + 2, width // 32 + 2))
    row, down = np.divmod(np.arange(height), 32)
    column, right = np.divmod(np.arange(width), 32)
    rows = grid[row] * (32 - down[:, None]) + grid[row + 1] * down[:, None]
    return ((rows[:, column] * (32 - right) + rows[:, column + 1] * right) >> 10).astype(np.int16)


def _background(random: np.random.RandomState, y: Line, clouds: Plane) -> Picture:
    """Return a background of two random colours, one above the other, with blotches."""
    top, bottom = _integers(random, 40, 216, (2, 3))
    height = len(y)
    shade = (top[:, None, None] * (height - y) + bottom[:, None, None] * y) // height  # 3 x height x 1
    return shade.astype(np.int16) + ((clouds - 128) >> 2)


def _coat(class_index: int, x: Line, y: Line, clouds: Plane) -> Picture:
    """Return the coat of a breed over the whole picture, out of which the shape of the pet is cut."""
    ground, marking = _saturated(class_index * 41), _saturated(class_index * 41 + 96 + class_index % 3 * 32)
    period = 12 + class_index % 4 * 8
    wobble = clouds >> 4
    match class_index % 5:
        case 0:  # upright stripes
            marked = (x + wobble) // period % 2 == 0
        case 1:  # level stripes
            marked = (y + wobble) // period % 2 == 0
        case 2:  # patchwork
            marked = (x // period + y // period) % 2 == 0
        case 3:  # spots
            marked = (x % (2 * period) - period) ** 2 + (y % (2 * period) - period) ** 2 < period**2 // 2
        case _:  # blotches
            marked = clouds > 128
    return np.where(marked, _rgb(marking), _rgb(ground))


def _rgb(colour: Colour) -> NDArray[np.int16]:
    """Return a colour that broadcasts over a picture: 3 x 1 x 1."""
    return np.array(colour, np.int16)[:, None, None]


def _saturated(hue: int) -> Colour:
    """Return a saturated colour; hues from 0 to 255 go once round the colour circle."""
    low, high = 60, 220
    sector, ramp = divmod(hue % 256 * 6, 256)
    up = low + ((high - low) * ramp >> 8)
    down = high + low - up
    red = (high, down, low, low, up, high)  # in each sector; green and blue are the same two and four sectors later
    return red[sector], red[sector - 2], red[sector - 4]


def _pet(random: np.random.RandomState, species: Species, x: Line, y: Line) -> Iterator[tuple[Mask, Colour | None]]:
    """Yield the parts of a pet from back to front: the pixels of each, and its colour; None stands for the coat."""
    height, width = len(y), len(x)
    head = min(height, width) * _integers(random, 26, 36) // 100  # radius in pixels
    x = x - (width // 2 + _integers(random, -width // 10, width // 10 + 1))
    y = y - (height * 9 // 20 + _integers(random, -height // 16, height // 16 + 1))

    def ellipse(right: int, down: int, width: int, height: int) -> Mask:
        """Return an ellipse from its centre, relative to the head's, and its radii: hundredths of the head's radius."""
        u = ((x - head * right // 100) * 256) // max(1, head * width // 100)
        v = ((y - head * down // 100) * 256) // max(1, head * height // 100)
        return u**2 + v**2 < 256**2

    def pointed_ear(side: int) -> Mask:
        down = y + head * 140 // 100
        return (down > 0) & (down < head) & (2 * abs(side * x - head * 60 // 100) < down)

    yield ellipse(0, 190, 115, 130), None  # body
    for side in (-1, 1):
        yield (pointed_ear(side) if species is Species.CAT else ellipse(side * 95, 0, 32, 80)), None
    yield ellipse(0, 0, 100, 95), None  # head
    for side in (-1, 1):
        yield ellipse(side * 40, -20, 16, 16), (250, 250, 250)
        yield ellipse(side * 40, -20, 6 if species is Species.CAT else 10, 12), (10, 10, 10)
    yield ellipse(0, 30, 18, 12), (60, 30, 30)  # nose
