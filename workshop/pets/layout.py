"""How the Oxford-IIIT Pet set lies on disk, and whether one that lies there is complete.

    ROOT/oxford-iiit-pet/images/Abyssinian_1.jpg ...
    ROOT/oxford-iiit-pet/annotations/trainval.txt, test.txt     one line a picture: Abyssinian_1 1 1 1

The columns of a line: image id, class (1 to 37), species (1 cat, 2 dog), breed within the species. ROOT is what
`torchvision.datasets.OxfordIIITPet` calls root.
"""

import enum
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from workshop.errors import DataError

DEFAULT_DATA = Path("datasets")
"""The data folder, unless a command is told otherwise."""

SOURCE = "https://www.robots.ox.ac.uk/~vgg/data/pets/data"
"""The set's home. Any folder or address that holds the two archives will do."""

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
    """The third column of a list file."""

    CAT = 1
    DOG = 2


@dataclass(frozen=True)
class Breed:
    """One of the 37 classes; `number` and `number_in_species` count from 1, as in the list files."""

    name: str
    number: int
    species: Species
    number_in_species: int


def _breeds() -> tuple[Breed, ...]:
    count = {Species.CAT: 0, Species.DOG: 0}
    breeds = []
    for number, name in enumerate(_NAMES, start=1):
        species = Species.CAT if name[0].isupper() else Species.DOG
        count[species] += 1
        breeds.append(Breed(name, number, species, count[species]))
    return tuple(breeds)


BREEDS = _breeds()
"""The 37 breeds, in the order of their class numbers."""

_CLASSES = {str(breed.number) for breed in BREEDS}


@dataclass(frozen=True)
class PetFolder:
    """The set under `root`, which may be complete, incomplete or not there at all; `command` puts a new one there."""

    root: Path
    command: str

    @property
    def base(self) -> Path:
        """All of the set."""
        return self.root / BASE_FOLDER

    @property
    def images(self) -> Path:
        """The photos."""
        return self.base / "images"

    @property
    def annotations(self) -> Path:
        """The list files."""
        return self.base / "annotations"

    def list_file(self, split: str) -> Path:
        """The names of the pictures in "trainval" or "test"."""
        return self.annotations / f"{split}.txt"

    def exists(self) -> bool:
        """Whether anything of the set lies here, complete or not."""
        return self.base.exists()

    def image_ids(self, split: str) -> list[str]:
        """The pictures of a split, in the order of its list file.

        Raises:
            DataError: there is no such list, or a line of it is not "image-id class species breed", where the class
                is 1 to 37 and the species 1 or 2.
        """
        path = self.list_file(split)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise DataError(f"{path} cannot be read ({error}); {self._remedy()}") from error
        for number, line in enumerate(lines, start=1):
            columns = line.split()
            if len(columns) != 4 or columns[1] not in _CLASSES or columns[2] not in ("1", "2"):
                problem = f"is not 'image-id class species breed': {line[:60]!r}"
                raise DataError(f"{path}, line {number} {problem}; {self._remedy()}")
        return [line.split()[0] for line in lines]

    def require_complete(self) -> None:
        """Pass if there is a file for every picture that the lists name. What is in the files is not looked at.

        Raises:
            DataError: names what is missing, and what to do about it.
        """
        missing = self._missing()
        if missing:
            shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            raise DataError(f"{self.base} is incomplete: {len(missing)} missing ({shown}); {self._remedy()}")
        if not self.image_ids("trainval"):
            raise DataError(f"{self.list_file('trainval')} names no picture; {self._remedy()}")

    def _missing(self) -> list[str]:
        """What a complete set would have and this one has not, as paths below `base`."""
        lists = [self.list_file(split) for split in SPLITS]
        if absent := [path for path in lists if not path.is_file()]:
            return [path.relative_to(self.base).as_posix() for path in absent]
        # One look at the folder instead of a question for each of 7,349 files: network folders are slow.
        there = set(os.listdir(self.images)) if self.images.is_dir() else set()
        names = [f"{image_id}.jpg" for split in SPLITS for image_id in self.image_ids(split)]
        return [f"images/{name}" for name in names if name not in there]

    def _remedy(self) -> str:
        return f"restore it, or delete {self.base} and run `{self.command}`"


def photos_folder(data: Path) -> PetFolder:
    """Where the real set lies in a data folder."""
    return PetFolder(data, _command("download", data))


def stand_in_folder(data: Path) -> PetFolder:
    """Where the stand-in lies in a data folder."""
    return PetFolder(data / "stand-in", _command("make", data))


def _command(name: str, data: Path) -> str:
    where = "" if data == DEFAULT_DATA else f" --data {shlex.quote(str(data))}"
    return f"workshop data {name}{where}"
