"""The pets as a PyTorch dataset."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from PIL import Image
from torchvision.datasets import OxfordIIITPet

from workshop.errors import DataError, first_line


class OxfordPets(OxfordIIITPet):
    """torchvision's OxfordIIITPet, which can be limited to a subset and names the file that it cannot read.

    Args:
        root: the folder that holds `oxford-iiit-pet`.
        split: "trainval" or "test".
        transform: applied to each picture, a PIL image in RGB.
        max_items: keep at most that many items, as equal as can be over the classes, always the same ones.
    """

    def __init__(
        self,
        root: Path,
        split: str = "trainval",
        transform: Callable[[Image.Image], Any] | None = None,
        max_items: int | None = None,
    ) -> None:
        super().__init__(root, split=split, transform=transform)
        self.kept = balanced_subset(self._labels, max_items)

    def __len__(self) -> int:
        """Items in the subset."""
        return len(self.kept)

    def files(self) -> list[tuple[str, int]]:
        """Name and size in bytes of each picture in the subset, which tell this data from other data anywhere."""
        paths = [self._images[index] for index in self.kept]
        return [(path.name, path.stat().st_size) for path in paths]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The picture, transformed, and its class, 0 to 36.

        Raises:
            DataError: the file is damaged; the message names it.
        """
        index = self.kept[index]
        try:
            return super().__getitem__(index)
        except Exception:
            _require_readable(self._images[index])
            raise


def balanced_subset(labels: Sequence[int], max_items: int | None) -> list[int]:
    """Indices of at most `max_items` items, ascending: the first of every class, then the second of every class, ..."""
    if max_items is None or max_items >= len(labels):
        return list(range(len(labels)))
    by_class: dict[int, list[int]] = defaultdict(list)
    for index, label in enumerate(labels):
        by_class[label].append(index)
    rounds = zip_longest(*(by_class[label] for label in sorted(by_class)))
    in_turn = (index for index in chain.from_iterable(rounds) if index is not None)
    return sorted(islice(in_turn, max_items))


def _require_readable(path: Path) -> None:
    try:
        with Image.open(path) as image:
            image.convert("RGB")
    except Exception as error:  # damaged files make Pillow raise OSError, SyntaxError, ValueError, struct.error, ...
        raise DataError(f"{path} cannot be read as a picture ({first_line(error)}); put a good copy there") from error
