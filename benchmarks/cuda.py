"""What this workshop says about CUDA, measured: one row for each claim, on a machine that has a CUDA device.

    python benchmarks/cuda.py --wheels wheels

It takes less than ten minutes, prints a table and writes cuda.json; a row that breaks does not stop the others. The
machine needs Python, torch and torchvision. It need not have a network, nor this project installed: what is missing is
taken from a folder of wheels, which two commands fill on another machine, for the Python that is to take them:

    pip wheel --no-deps --wheel-dir wheels .
    pip download --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --dest wheels \
        line_profiler nvitop nvidia-ml-py psutil py-spy msgspec tqdm timm

`--device cpu` tries the rows themselves: they run, but their claims are about a device that is not there.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from pkgutil import extend_path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuda_rows import Claim, Found, Place, Row

# Beside this file, `import cuda` finds it in place of NVIDIA's package, of which torch imports `cuda.bindings`.
__path__ = extend_path([], "cuda")

ROOT = Path(__file__).parents[1]

NEEDED = "line_profiler nvitop psutil py-spy msgspec tqdm typer rich profiling-workshop".split()
"""The distributions without which no row can be measured."""

NO_DEVICE = "no CUDA device"


def main() -> None:
    """Measure every row, print the table, and write the file."""
    parser = argparse.ArgumentParser(description="Measure what this workshop says about CUDA.")
    parser.add_argument("--wheels", type=Path, help="the folder of wheels for what is missing here")
    parser.add_argument("--json", type=Path, default=Path("cuda.json"), help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, help="the data folder (default: the pictures are drawn anew)")
    parser.add_argument("--device", default="cuda", help="(default: %(default)s)")
    parser.add_argument("--only", nargs="*", help="some of the rows, by their names in cuda.json", metavar="ROW")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        provide(args.wheels, Path(folder, "site"))
        from cuda_claims import CLAIMS
        from machine import machine

        if unknown := set(args.only or []) - CLAIMS.keys():
            parser.error(f"there is no row {min(unknown)}; there are {', '.join(CLAIMS)}")
        claims = {name: claim for name, claim in CLAIMS.items() if not args.only or name in args.only}
        found = measure(claims, Path(folder), args.device, args.data or Path(folder, "data"))
        held_for = f"{device_name(args.device)}; {machine()}"
    print(f"{held_for}\n\n| claim | measured | met |\n|---|---|---|")
    for name, each in found.items():
        print(f"| {CLAIMS[name].text} | {each.says} | { {True: 'yes', False: 'NO', None: '-'}[each.met] } |")
    rows = [{"row": name, "claim": CLAIMS[name].text, **asdict(each)} for name, each in found.items()]
    args.json.write_text(json.dumps({"machine": held_for, "rows": rows}, indent=2))


def provide(wheels: Path | None, site: Path) -> None:
    """Make this project and what it needs importable, here and in every process that is started from here."""
    paths = [str(ROOT)]
    if missing := [name for name in NEEDED if not is_installed(name)]:
        if wheels is None:
            sys.exit(f"not installed here: {', '.join(missing)}; name a folder with --wheels, see the top of this file")
        install = ["install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--target", str(site)]
        subprocess.run([sys.executable, "-m", "pip", *install, *map(str, wheels.glob("*.whl"))], check=True)
        paths.append(str(site))
        os.environ["PATH"] = os.pathsep.join([str(site / "bin"), os.environ["PATH"]])
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])


def is_installed(distribution: str) -> bool:
    """Return whether this Python has a distribution."""
    try:
        return bool(importlib.metadata.version(distribution))
    except importlib.metadata.PackageNotFoundError:
        return False


def device_name(device: str) -> str:
    """Return what a device is called."""
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") and torch.cuda.is_available() else device


def measure(claims: Mapping[str, "Claim"], folder: Path, device: str, data: Path) -> dict[str, "Found"]:
    """Measure each claim by itself; in the end, all those side by side whose times do not matter."""
    import torch
    from cuda_rows import Found, Place

    from workshop.pets.ensure import ensure_stand_in

    if device.startswith("cuda") and not torch.cuda.is_available():
        return {name: Found(NO_DEVICE, None) for name in claims}

    ensure_stand_in(data)
    place = Place(folder, data, device)
    alone = {name: claim.row for name, claim in claims.items() if not claim.beside_others}
    found = {name: measure_row(name, row, place) for name, row in alone.items()}
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4)) as threads:
        others = {name: threads.submit(measure_row, name, claims[name].row, place) for name in claims.keys() - alone}
    return {name: found[name] if name in found else others[name].result() for name in claims}


def measure_row(name: str, row: "Row", place: "Place") -> "Found":
    """Measure a row, whatever becomes of it."""
    from cuda_rows import Found

    begin = time.monotonic()
    try:
        found = row(place)
    except Exception as error:
        found = Found(f"broke: {' '.join(str(error).split())[:200]}", None, {"traceback": traceback.format_exc()})
    found.figures["seconds"] = round(time.monotonic() - begin, 1)
    print(f"{name}: {found.says} ({found.figures['seconds']} s)", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    main()
