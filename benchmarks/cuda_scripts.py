"""The scripts in `gpu/` as rows of `cuda.py`: does `workshop measure` name their faults there, and what they cost?"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from corpus import Planted, described, in_folder
from cuda_rows import Claim, Found, Place, Row
from diagnosis import Tried, try_healthy, try_slow

GPU = Path(__file__).parent / "gpu"

SECONDS = 4.0
"""Seconds of each measurement: all scripts are to fit into one half."""

LIMIT_S = 60.0
"""Seconds, at most, that a script and its twin may take."""

HEADROOMS = {
    "arithmetic": {"arithmetic"},
    "launches": {"launches"},
    "waits": {"launches"},  # the device has nothing to do meanwhile
    "data": {"data", "launches"},  # what the loop itself makes and copies is no wait for a DataLoader
}
"""The halves of a step whose headroom may be the largest, by what bounds it."""


def of_planted(planted: Planted, bound: str) -> Row:
    """Return the row of a script with a fault: line or cause, largest headroom and gain must be right."""

    def row(place: Place) -> Found:
        hide_device(place)
        tried = try_slow(planted, SECONDS)
        right = {"named": tried.named, "gain": tried.close, "headroom": tried.largest in HEADROOMS[bound]}
        stated = f"{first_of(tried)}: {tried.gain:.2f}x, reached {tried.reached:.2f}x; largest: {tried.largest}"
        wrong = [name for name, is_right in right.items() if not is_right]
        says = f"{stated}; wrong: {', '.join(wrong)}" if wrong else stated
        return Found(says, not wrong, {"right": right, "found": tried.found, "trials": tried.trials})

    return row


def of_healthy(script: Path) -> Row:
    """Return the row of a script without a fault: nothing must be found but options."""

    def row(place: Place) -> Found:
        hide_device(place)
        tried = try_healthy(script, SECONDS)
        return Found(first_of(tried), not tried.faults, {"found": tried.found, "trials": tried.trials})

    return row


def hide_device(place: Place) -> None:
    """Let scripts, which take a GPU where there is one, find none if the rows are tried without."""
    if not place.device.startswith("cuda"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def first_of(tried: Tried) -> str:
    """Return the cause and the line of the first finding."""
    return f"{tried.found[0]['cause']}, line {tried.found[0]['line']}" if tried.found else "nothing found"


def summary(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return how many of the scripts are right, of those that were measured."""
    measured = [row for row in rows if row["row"].startswith("gpu-") and row["met"] is not None]
    right = [row["figures"]["right"] for row in measured if "right" in row["figures"]]
    healthy = [row["met"] for row in measured if "right" not in row["figures"]]
    counts = [f"{name} {sum(each[name] for each in right)}" for name in ("named", "gain", "headroom")]
    return (
        f"Right of {len(right)} scripts: {', '.join(counts)}; {sum(healthy)} of {len(healthy)} healthy ones are clean."
    )


BOUNDS = {name: values["bound"] for name, values in described(GPU).items()}

SCRIPTS = {
    f"gpu-{each.name}": Claim(
        f"`measure`: `gpu/{each.name}.py`, {each.cause} (bound by {BOUNDS[each.name]})",
        of_planted(each, BOUNDS[each.name]),
        half=2,
        limit_s=LIMIT_S,
    )
    for each in in_folder(GPU)
} | {
    f"gpu-{path.stem}": Claim(
        f"`measure`: nothing is wrong with `gpu/healthy/{path.name}`", of_healthy(path), half=2, limit_s=LIMIT_S
    )
    for path in sorted((GPU / "healthy").glob("*.py"))
}
