"""How the Oxford-IIIT Pet set lies on disk, and whether a set that lies there is complete.

    ROOT/oxford-iiit-pet/images/Abyssinian_1.jpg ...
    ROOT/oxford-iiit-pet/annotations/trainval.txt, test.txt     one line a picture: Abyssinian_1 1 1 1

The columns of a line are the image id, the class (1 to 37), the species (1 cat, 2 dog) and the breed within the
species. ROOT is what `torchvision.datasets.OxfordIIITPet` calls root.
"""

import enum
import os
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from workshop.errors import DataError

DEFAULT_DATA = Path("datasets")
"""The data folder that a command uses unless another one is named."""

SOURCE = "https://www.robots.ox.ac.uk/~vgg/data/pets/data"
"""The set's home; any folder or address that holds the two archives can take its place."""

OFFLINE_VARIABLE = "WORKSHOP_OFFLINE"
"""The environment variable that forbids the network if it has any value but 0."""

BASE_FOLDER = "oxford-iiit-pet"
SPLITS = ("trainval", "test")

# The set's own spelling, where cats start with a capital letter, in the order of its class numbers.
_NAMES = """
Abyssinian american_bulldog american_pit_bull_terrier basset_hound beagle Bengal Birman Bombay boxer
British_Shorthair chihuahua Egyptian_Mau english_cocker_spaniel english_setter german_shorthaired great_pyrenees
havanese japanese_chin keeshond leonberger Maine_Coon miniature_pinscher newfoundland Persian pomeranian pug Ragdoll
Russian_Blue saint_bernard samoyed scottish_terrier shiba_inu Siamese Sphynx staffordshire_bull_terrier
wheaten_terrier yorkshire_terrier
""".split()


class Species(enum.IntEnum):
    """The species, as numbered in the third column of a list file."""

    CAT = 1
    DOG = 2


class Breed(NamedTuple):
    """One of the 37 classes; `number` and `number_in_species` count from 1, as in the list files."""

    name: str
    number: int
    species: Species
    number_in_species: int


def _breeds() -> Iterator[Breed]:
    counts: Counter[Species] = Counter()
    for number, name in enumerate(_NAMES, start=1):
        species = Species.CAT if name[0].isupper() else Species.DOG
        counts[species] += 1
        yield Breed(name, number, species, counts[species])


BREEDS = tuple(_breeds())
"""The 37 breeds, in the order of their class numbers."""

_CLASSES = {str(breed.number) for breed in BREEDS}


class PetFolder:
    """The set under a root folder, which may be complete, incomplete or not there; `command` puts a new one there."""

    def __init__(self, root: Path, command: str) -> None:
        self.root, self.command = root, command
        self.base = root / BASE_FOLDER
        self.images, self.annotations = self.base / "images", self.base / "annotations"
        self._remedy = f"restore it, or delete {self.base} and run `{command}`"

    def list_file(self, split: str) -> Path:
        """Return the file that lists the pictures of "trainval" or "test"."""
        return self.annotations / f"{split}.txt"

    def exists(self) -> bool:
        """Return whether the set is here, complete or not."""
        return self.base.exists()

    def image_ids(self, split: str) -> list[str]:
        """Return the ids of the pictures of a split, in the order of its list file.

        Raises:
            DataError: there is no such list, or one of its lines is not "image-id class species breed".
        """
        path = self.list_file(split)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise DataError(f"{path} cannot be read ({error}); {self._remedy}") from error
        for number, line in enumerate(lines, start=1):
            columns = line.split()
            if len(columns) != 4 or columns[1] not in _CLASSES or columns[2] not in ("1", "2"):
                problem = f"line {number} is not 'image-id class species breed': {line[:60]!r}"
                raise DataError(f"{path}, {problem}; {self._remedy}")
        return [line.split()[0] for line in lines]

    def require_complete(self) -> None:
        """Check that there is a file for every picture in the lists; the content of the files is not checked.

        Raises:
            DataError: something is missing; the message names it, and says what to do about it.
        """
        missing = [f"annotations/{split}.txt" for split in SPLITS if not self.list_file(split).is_file()]
        if not missing:
            # The folder is listed once, instead of asking for each of 7,349 files: network folders are slow.
            present = set(os.listdir(self.images)) if self.images.is_dir() else set()
            ids = [image_id for split in SPLITS for image_id in self.image_ids(split)]
            missing = [f"images/{image_id}.jpg" for image_id in ids if f"{image_id}.jpg" not in present]
        if missing:
            shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            raise DataError(f"{self.base} is incomplete: {len(missing)} missing ({shown}); {self._remedy}")
        if not self.image_ids("trainval"):
            raise DataError(f"{self.list_file('trainval')} names no picture; {self._remedy}")


def photos_folder(data: Path) -> PetFolder:
    """Return the place of the photos in a data folder."""
    return PetFolder(data, _command("download", data))


def stand_in_folder(data: Path) -> PetFolder:
    """Return the place of the stand-in in a data folder."""
    return PetFolder(data / "stand-in", _command("make", data))


@dataclass(frozen=True)
class SetStatus:
    """The state of one set under the data folder: what was found of it, and what to do if that is not enough."""

    name: str
    state: Literal["complete", "incomplete", "absent"]
    found: str
    remedy: str = ""


def status_of_sets(data: Path) -> list[SetStatus]:
    """Return the state of the photos and of the stand-in under a data folder."""
    wanted, before = "fetched (0.8 GB) by the first run that wants them", ""
    if is_offline():
        wanted, before = f"{OFFLINE_VARIABLE} is set: runs take the stand-in", f"unset {OFFLINE_VARIABLE} && "
    return [
        _status("photos", photos_folder(data), wanted, before),
        _status("stand-in", stand_in_folder(data), "drawn by the first run that wants it"),
    ]


def _status(name: str, folder: PetFolder, otherwise: str, before: str = "") -> SetStatus:
    try:
        if not folder.exists():
            remedy = f"to have it now: {before}{folder.command}"
            return SetStatus(name, "absent", f"not in {folder.base}; {otherwise}", remedy)
        folder.require_complete()
    except DataError as error:
        found, _, remedy = str(error).partition("; ")
        return SetStatus(name, "incomplete", found, remedy)
    except OSError as error:  # as where it belongs to somebody else
        remedy = "name a data folder that you may read with --data"
        return SetStatus(name, "incomplete", f"{error.filename} cannot be read: {error.strerror}", remedy)
    counts = ", ".join(f"{len(folder.image_ids(split))} {split}" for split in SPLITS)
    return SetStatus(name, "complete", f"{counts} in {folder.base}")


def is_offline() -> bool:
    """Return whether the environment forbids the network."""
    return os.environ.get(OFFLINE_VARIABLE, "0") not in ("", "0")


def _command(name: str, data: Path) -> str:
    return f"workshop data {name}" + ("" if data == DEFAULT_DATA else f" --data {shlex.quote(str(data))}")
