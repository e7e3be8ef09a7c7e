"""The pets as a PyTorch dataset."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from torchvision.datasets import OxfordIIITPet

from workshop.errors import DataError, first_line


class OxfordPets(OxfordIIITPet):
    """This dataset is torchvision's, which can be limited to a subset and names the file that it cannot read.

    Args:
        root: the folder that holds `oxford-iiit-pet`.
        split: "trainval" or "test".
        transform: applied to each picture, a PIL image in RGB.
        max_items: keep at most that many items, always the same ones, with every class equally represented.
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
        """Return the number of items in the subset."""
        return len(self.kept)

    def files(self) -> list[tuple[str, int]]:
        """Return the name and the size in bytes of each picture in the subset, which identify the data."""
        return [(self._images[index].name, self._images[index].stat().st_size) for index in self.kept]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a picture, transformed, and its class, 0 to 36.

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
    """Return the ascending indices of `max_items` items: the first of every class, then the second of each, ..."""
    seen: Counter[int] = Counter()
    turns = []
    for index, label in enumerate(labels):
        turns.append((seen[label], label, index))
        seen[label] += 1
    return sorted(index for _, _, index in sorted(turns)[:max_items])


def _require_readable(path: Path) -> None:
    try:
        with Image.open(path) as image:
            image.convert("RGB")
    except Exception as error:  # damaged files make Pillow raise OSError, SyntaxError, ValueError, struct.error, ...
        raise DataError(f"{path} cannot be read as a picture ({first_line(error)}); put a good copy there") from error
