"""What this workshop says about CUDA, measured: one row for each claim, on a machine that has a CUDA device.

    python benchmarks/cuda.py --half 1 --wheels wheels
    python benchmarks/cuda.py --half 2 --wheels wheels

Each half takes six minutes at most. The table and cuda.json are written anew after each row, a row that breaks or hangs
does not stop the others, and what stands in the file stays unless it is measured again. The second half measures the
scripts in `gpu/`. The machine needs Python, torch and torchvision. It need not have a network, nor this project
installed: what is missing is taken from a folder of wheels, which three commands fill on another machine, for the
Python that is to take them:

    pip wheel --no-deps --wheel-dir wheels .
    there="--only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64"
    pip download $there --dest wheels line_profiler nvitop py-spy msgspec tqdm typer
    pip download $there --dest wheels --no-deps timm

`--device cpu` tries the rows themselves: they run, but their claims are about a device that is not there.
"""

import argparse
import importlib.metadata
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_rows import Claim, Found, Place

# Beside this file, `import cuda` finds it in place of NVIDIA's package, of which torch imports `cuda.bindings`.
__path__ = extend_path([], "cuda")

ROOT = Path(__file__).parents[1]

NEEDED = "line_profiler nvitop psutil py-spy msgspec tqdm typer rich profiling-workshop".split()
"""The distributions without which no row can be measured."""

NO_DEVICE = "no CUDA device"

HALF_S = 360.0
"""Seconds, at most, that the rows of a half take together, unless another time is asked for."""


def main() -> None:
    """Measure the rows, and after each of them print the table and write the file."""
    parser = argparse.ArgumentParser(description="Measure what this workshop says about CUDA.")
    parser.add_argument("--wheels", type=Path, help="the folder of wheels for what is missing here")
    parser.add_argument("--json", type=Path, default=Path("cuda.json"), help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, help="the data folder (default: the pictures are drawn anew)")
    parser.add_argument("--device", default="cuda", help="(default: %(default)s)")
    parser.add_argument("--half", type=int, choices=[1, 2], help="one half of the rows (default: both)")
    parser.add_argument("--seconds", type=float, default=HALF_S, help="for each half (default: %(default)s)")
    parser.add_argument("--only", nargs="*", help="some of the rows, by their names in cuda.json", metavar="ROW")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        provide(args.wheels, Path(folder, "site"))
        from cuda_claims import CLAIMS
        from cuda_rows import Place
        from cuda_scripts import summary
        from machine import machine

        if unknown := set(args.only or []) - CLAIMS.keys():
            parser.error(f"there is no row {min(unknown)}; there are {', '.join(CLAIMS)}")
        place = Place(Path(folder), args.data or Path(folder, "data"), args.device)
        held_for = f"{device_name(place)}; {machine()}"
        rows = {row["row"]: row for row in json.loads(args.json.read_text())["rows"]} if args.json.exists() else {}
        for half in (1, 2) if args.half is None else (args.half,):
            claims = {name: claim for name, claim in CLAIMS.items() if claim.half == half}
            claims = {name: claim for name, claim in claims.items() if not args.only or name in args.only}
            for name, found in measure(claims, place, args.seconds):
                rows[name] = {"row": name, "claim": claims[name].text, **asdict(found)}
                in_order = [rows[each] for each in CLAIMS if each in rows]
                args.json.write_text(json.dumps({"machine": held_for, "rows": in_order}, indent=2))
    print(f"{held_for}\n\n| claim | measured | met |\n|---|---|---|")
    for row in (rows[each] for each in CLAIMS if each in rows):
        print(f"| {row['claim']} | {row['says']} | { {True: 'yes', False: 'NO', None: '-'}[row['met']] } |")
    print(f"\n{summary(rows.values())}")


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


def device_name(place: "Place") -> str:
    """Return what a device is called; this process itself has nothing to do with one, as it is to be forked."""
    return next(found.says for _, found in in_processes({"": name_device}, place, 1, lambda _: HALF_S))


def name_device(place: "Place") -> "Found":
    """Return what a device is called, as a row."""
    import torch
    from cuda_rows import Found

    if not place.device.startswith("cuda"):
        return Found(place.device, None)
    return Found(torch.cuda.get_device_name(place.device) if torch.cuda.is_available() else NO_DEVICE, None)


def measure(claims: Mapping[str, "Claim"], place: "Place", seconds: float = HALF_S) -> Iterator[tuple[str, "Found"]]:
    """Measure each claim by itself, and in the end, all those side by side whose times do not matter.

    Yields each as soon as it is measured. In so many seconds all are over: the last ones are ended, or not begun.
    """
    from cuda_rows import Found

    from workshop.pets.ensure import ensure_stand_in

    end = time.monotonic() + seconds
    if device_name(place) == NO_DEVICE:
        yield from ((name, Found(NO_DEVICE, None)) for name in claims)
        return
    ensure_stand_in(place.data)

    def limit_s(name: str) -> float:
        return min(claims[name].limit_s, end - time.monotonic())

    for beside_others, at_once in (False, 1), (True, max(1, (os.cpu_count() or 1) // 4)):
        rows = {name: claim.row for name, claim in claims.items() if claim.beside_others is beside_others}
        yield from in_processes(rows, place, at_once, limit_s)


Row = Callable[["Place"], "Found"]


def in_processes(
    rows: Mapping[str, Row], place: "Place", at_once: int, limit_s: Callable[[str], float]
) -> Iterator[tuple[str, "Found"]]:
    """Measure rows, so many at once, each in a process of its own, which is ended once its time is over."""
    from cuda_rows import Found

    waiting, running = dict(rows), dict[str, tuple[Any, Path, float]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            name, row = next(iter(waiting.items()))
            del waiting[name]
            path, seconds = place.new_folder() / "found.json", limit_s(name)
            if seconds <= 0:
                yield name, Found("not measured: no time is left", None)
                continue
            process = multiprocessing.get_context("fork").Process(target=measure_row, args=(name, row, place, path))
            process.start()
            running[name] = process, path, time.monotonic() + seconds
        for name, (process, path, end) in list(running.items()):
            if process.is_alive() and time.monotonic() < end:
                continue
            if is_late := process.is_alive():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # what it has started, too
                process.kill()
            process.join()
            del running[name]
            why = "ended: its time is over" if is_late else f"broke: exit code {process.exitcode}"
            yield name, Found(**json.loads(path.read_text())) if path.exists() else Found(why, None)
        time.sleep(0.05)


def measure_row(name: str, row: Row, place: "Place", path: Path) -> None:
    """Measure a row in this process, whatever becomes of it, and write what was found."""
    from cuda_rows import Found

    os.setsid()
    begin = time.monotonic()
    try:
        found = row(place)
    except Exception as error:
        found = Found(f"broke: {' '.join(str(error).split())[:200]}", None, {"traceback": traceback.format_exc()})
    found.figures["seconds"] = round(time.monotonic() - begin, 1)
    if name:
        print(f"{name}: {found.says} ({found.figures['seconds']} s)", file=sys.stderr, flush=True)
    path.with_suffix(".part").write_text(json.dumps(asdict(found)))
    path.with_suffix(".part").rename(path)


if __name__ == "__main__":
    main()
