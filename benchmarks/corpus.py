"""Slow training scripts, each with one planted fault that is known, and a twin that does the same work without it.

    python benchmarks/corpus.py crop_patches > twin.py
    python benchmarks/corpus.py quake_picker --corpus benchmarks/unseen > twin.py

Some lie in `slow/`, with `slow/planted.toml`; the others are the cases of part 11, which participants solve. As a
command, this prints the twin of one.
"""

import argparse
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workshop.parts import find_part
from workshop.parts.case import case_names, find_case, without_fault

SLOW = Path(__file__).parent / "slow"


@dataclass(frozen=True)
class Planted:
    """A script with a fault."""

    name: str
    cause: str
    pieces: tuple[str, ...]
    """Text of the lines that are at fault."""
    script: Path
    fixed: Path
    """Its twin, which is made by what `planted.toml` or `case.toml` replaces, and deleted when this process ends."""

    @property
    def lines(self) -> list[int]:
        """The numbers of the lines that are at fault."""
        lines = enumerate(self.script.read_text().splitlines(), start=1)
        return [number for number, line in lines if any(piece in line for piece in self.pieces)]


def planted(folder: Path | None = None) -> list[Planted]:
    """Return the scripts of a folder with a `planted.toml`, or else those of `slow/` and part 11, sorted by name."""
    found = [*in_folder(SLOW), *of_part11()] if folder is None else in_folder(folder)
    return sorted(found, key=lambda each: each.name)


def in_folder(folder: Path) -> Iterator[Planted]:
    """Yield the scripts of a folder."""
    for name, values in described(folder).items():
        script = (folder / f"{name}.py").absolute()
        yield Planted(name, values["cause"], (values["line"],), script, without_fault(script, values["fix"]))


def described(folder: Path) -> dict[str, Any]:
    """Return what a folder's `planted.toml` says of each of its scripts, by their names."""
    return tomllib.loads((folder / "planted.toml").read_text())


def of_part11() -> Iterator[Planted]:
    """Yield the cases of part 11."""
    part = find_part("part11")
    for name in case_names(part):
        case = find_case(part, name)
        yield Planted(name, case.cause, case.lines, case.untouched, case.solution)


def main() -> None:
    """Print a twin."""
    parser = argparse.ArgumentParser(description="Print the twin of a planted script, which has no fault.")
    parser.add_argument("name", help="the script's name, without .py")
    parser.add_argument("--corpus", type=Path, help="a folder with a planted.toml (default: slow/ and part 11)")
    args = parser.parse_args()
    twins = {each.name: each.fixed for each in planted(args.corpus)}
    if args.name not in twins:
        parser.error(f"there is no {args.name}; there are {', '.join(twins)}")
    print(twins[args.name].read_text(), end="")


if __name__ == "__main__":
    main()
