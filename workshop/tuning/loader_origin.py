"""Which DataLoader of a training is tuned, where it was made, and why it cannot be tuned, if so."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workshop.diagnosis.samples import Observations
from workshop.notebooks.cell_places import line_of
from workshop.probe.observations import LoaderIterated
from workshop.profiles.stacks import Frame

INSTALLED = re.compile(r"(?:site|dist)-packages/([^/.]+)")

AROUND = ("__init__", "wrapper")
"""Functions of libraries inside of which a DataLoader is made by whoever calls them: the constructor of a class that is
derived from DataLoader, and what Lightning puts around that of DataLoader."""

SET_IN = {
    "transformers": "TrainingArguments",
    "lightning": "the DataLoader that train_dataloader() returns",
    "pytorch_lightning": "the DataLoader that train_dataloader() returns",
    "accelerate": "the DataLoader that is given to prepare()",
}
"""Where the arguments of a DataLoader are set that a library makes."""

PREFIXES = {"transformers": "dataloader_"}
"""What stands before their names there."""


@dataclass(frozen=True)
class LoaderOrigin:
    """A DataLoader of the training."""

    seen: LoaderIterated
    """How it was iterated last."""
    path: str
    """The file of the line that makes it; empty if a library makes it."""
    line: int
    library: str
    """The library that makes it; empty if the script does."""

    @property
    def where(self) -> str:
        """Where its arguments are set: the line, or what a library takes them from."""
        if not self.library:
            return line_of(self.path, self.line)
        return SET_IN.get(self.library, f"the DataLoader that {self.library} makes")

    @property
    def prefix(self) -> str:
        """What stands before the names of the arguments there."""
        return PREFIXES.get(self.library, "")


def waited_for(found: Observations, waits_s: Mapping[int, float]) -> list[LoaderIterated]:
    """Return the DataLoaders of the training, one for each line that makes them, the most waited for first."""
    of_sites: dict[object, list[LoaderIterated]] = {}
    for iterated in found.iterated:
        if iterated.training:
            of_sites.setdefault(found.made.get(iterated.loader, iterated.loader), []).append(iterated)

    def waited_s(site: list[LoaderIterated]) -> float:
        return sum(waits_s.get(number, 0.0) for number in {iterated.loader for iterated in site})

    longest = sorted(of_sites.values(), key=waited_s)
    return [site[-1] for site in reversed(longest)]


def origin_of(found: Observations, seen: LoaderIterated) -> LoaderOrigin:
    """Return where a DataLoader was made."""
    frame, library = _maker(found, seen.loader)
    return LoaderOrigin(seen, frame.path if frame else "", (frame.line or 0) if frame else 0, library)


def _maker(found: Observations, number: int) -> tuple[Frame | None, str]:
    """The frame of the script that makes a DataLoader, or the library that does.

    A library may have been given a DataLoader, and have made another one for the same dataset: the script's own counts.
    """
    dataset = found.datasets.get(number)
    same = [made for made in found.made if found.datasets.get(made) == dataset] if dataset else []
    for made in [number, *same]:
        stack = list(found.made.get(made, ()))
        while stack and stack[-1].name in AROUND and not found.user_frames(stack[-1:]):
            stack.pop()
        if stack and found.user_frames(stack[-1:]):
            return stack[-1], ""
    return None, _called_library(found, found.made.get(number, ()))


def _called_library(found: Observations, stack: Sequence[Frame]) -> str:
    """The library that user code called: it has the argument, even if it has another one make the DataLoader."""
    name = "a library"
    for frame in reversed(stack):
        if found.user_frames([frame]):
            break
        if library := INSTALLED.search(frame.path):
            name = library[1]
    return name
