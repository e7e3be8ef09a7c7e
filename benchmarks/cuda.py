"""What this workshop says about CUDA, measured: one row for each claim, on a machine that has a CUDA device.

    python benchmarks/cuda.py --wheels wheels

It takes less than eight minutes, prints a table and writes cuda.json; a row that breaks does not stop the others. The
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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

NEEDED = "line_profiler nvitop psutil py-spy msgspec tqdm typer rich profiling-workshop".split()
"""The distributions without which no row can be measured."""

NO_DEVICE = "no CUDA device"


@dataclass
class Found:
    """What was measured for a claim."""

    says: str
    met: bool | None
    """None if it was not measured."""
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where the rows run."""

    folder: Path
    data: Path
    device: str

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of `configs/gpu_config.py` with fewer pictures; without a GPU, such that a row takes seconds."""
        if self.device.startswith("cuda"):
            return {"batch_size": 128, "image_size": 224, "max_items": 512}
        return {"batch_size": 8, "image_size": 64, "max_items": 24}

    def run(self, *command: Any, fails: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run this Python with some arguments, in a folder of its own; it must end well, unless it may fail."""
        work = Path(tempfile.mkdtemp(dir=self.folder))
        variables = os.environ | {"WORKSHOP_OFFLINE": "1"} | environment
        done = subprocess.run(
            [sys.executable, *map(str, command)], cwd=work, env=variables, capture_output=True, text=True, timeout=240
        )
        if done.returncode and not fails:
            raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout)[-300:]}")
        done.args = work
        return done

    def workshop(self, command: str, *arguments: Any, fails: bool = False) -> Any:
        """Run a command of the workshop that prints JSON, and return that."""
        return json.loads(self.run("-m", "workshop", command, "--json", *arguments, fails=fails).stdout)

    def script(self, name: str, source: str) -> Path:
        """Write a script into a folder of its own."""
        path = Path(tempfile.mkdtemp(dir=self.folder), name)
        path.write_text(source)
        return path


def main() -> None:
    """Measure every row, print the table, and write the file."""
    parser = argparse.ArgumentParser(description="Measure what this workshop says about CUDA.")
    parser.add_argument("--wheels", type=Path, help="the folder of wheels for what is missing here")
    parser.add_argument("--json", type=Path, default=Path("cuda.json"), help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, help="the data folder (default: the pictures are drawn anew)")
    parser.add_argument("--device", default="cuda", help="(default: %(default)s)")
    parser.add_argument("--only", nargs="*", choices=CLAIMS, help="some of the rows", metavar="ROW")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        provide(args.wheels, Path(folder, "site"))
        claims = {name: claim for name, claim in CLAIMS.items() if not args.only or name in args.only}
        found = measure(claims, Path(folder), args.device, args.data or Path(folder, "data"))
        from machine import machine

        held_for = f"{device_name(args.device)}; {machine()}"
    print(f"{held_for}\n\n| claim | measured | met |\n|---|---|---|")
    for name, each in found.items():
        print(f"| {CLAIMS[name].text} | {each.says} | { {True: 'yes', False: 'NO', None: '-'}[each.met] } |")
    rows = [{"row": name, "claim": CLAIMS[name].text, **asdict(each)} for name, each in found.items()]
    args.json.write_text(json.dumps({"machine": held_for, "rows": rows}, indent=2))


def provide(wheels: Path | None, site: Path) -> None:
    """Make this project and what it needs importable, here and in every process that is started from here."""
    paths = [str(ROOT), str(ROOT / "benchmarks")]
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


def measure(claims: Mapping[str, "Claim"], folder: Path, device: str, data: Path) -> dict[str, Found]:
    """Measure each claim by itself; in the end, all those side by side whose times do not matter."""
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        return {name: Found(NO_DEVICE, None) for name in claims}
    from workshop.pets.ensure import ensure_stand_in

    ensure_stand_in(data)
    place = Place(folder, data, device)
    alone = {name: claim.row for name, claim in claims.items() if not claim.beside_others}
    found = {name: measure_row(name, row, place) for name, row in alone.items()}
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4)) as threads:
        others = {name: threads.submit(measure_row, name, claims[name].row, place) for name in claims.keys() - alone}
    return {name: found[name] if name in found else others[name].result() for name in claims}


def measure_row(name: str, row: "Row", place: Place) -> Found:
    """Measure a row, whatever becomes of it."""
    begin = time.monotonic()
    try:
        found = row(place)
    except Exception as error:
        found = Found(f"broke: {' '.join(str(error).split())[:200]}", None, {"traceback": traceback.format_exc()})
    found.figures["seconds"] = round(time.monotonic() - begin, 1)
    print(f"{name}: {found.says} ({found.figures['seconds']} s)", file=sys.stderr, flush=True)
    return found


Row = Callable[[Place], Found]


@dataclass(frozen=True)
class Claim:
    """What is said of CUDA."""

    text: str
    row: Row
    """Measures it."""
    beside_others: bool = False
    """Whether its times do not matter, so that it can run beside others."""


def first_command(place: Place) -> Found:
    """Profile the untouched script line by line, as the README's first command does."""
    from workshop.experiment import load_config
    from workshop.profiles import line_profile

    source = replace(load_config(ROOT / "configs" / "gpu_config.py"), dataset="stand-in", max_epochs=1)
    fewer = place.sizes | {"max_items": place.sizes["max_items"] // 2}
    config = place.script("config.py", replace(source, **fewer).to_source())
    script = ROOT / "train.py"
    options = ["--data", place.data, "--device", place.device]
    done = place.run("-m", "kernprof", "-lv", script, config, *options)
    main = line_profile.find(done.args / "train.py.lprof", script, "main")
    assert main
    assert main.hottest
    share, source_line = (
        main.share(main.hottest.number),
        script.read_text().splitlines()[main.hottest.number - 1].strip(),
    )
    return Found(
        f"{share:.1%} of main: `{source_line}`", "in batches" in source_line and share >= 0.9, {"share": share}
    )


LATE = """
from solutions.prefetcher import Prefetcher as Base

class Prefetcher(Base):
    def __iter__(self):
        for batch in self.loader:
            copied = self._copy(batch)  # after the step before, and after its .item()
            yield self._arrived(copied)
"""

TIMM = """
from timm.data.loader import PrefetchLoader

def Prefetcher(loader, device):
    return PrefetchLoader(loader, mean=(0.0,) * 3, std=(1 / 255,) * 3, device=device)  # which changes no value
"""


def with_prefetcher(place: Place, source: str) -> Path:
    """Return part 6's solution with another prefetcher."""
    text = (ROOT / "solutions" / "part6.py").read_text()
    script = place.script("train.py", text.replace("from solutions.prefetcher", "from another_prefetcher"))
    (script.parent / "another_prefetcher.py").write_text(source)
    return script


def pinned(place: Place) -> Path:
    """Return part 5's solution with a loader that pins memory, and nothing else."""
    text = (ROOT / "solutions" / "part5.py").read_text()
    return place.script("train.py", text.replace("shuffle=True,", "shuffle=True, pin_memory=True,"))


def late(place: Place) -> Path:
    """Return part 6's solution with copies that are queued after the step before."""
    return with_prefetcher(place, LATE)


def by_timm(place: Place) -> Path:
    """Return part 6's solution with timm's prefetcher."""
    return with_prefetcher(place, TIMM)


def compiled(_: Place) -> Path:
    """Return a script that compiles its model."""
    return ROOT / "tests" / "honest" / "compiled.py"


def hidden_copies(script: Path, place: Place, **environment: str) -> Found:
    """Measure the share of a script's copy time that is hidden under kernels, and the time of its steps."""
    from workshop.course.checks import config_of, contest_of
    from workshop.judge.bench import copies
    from workshop.parts import find_part

    part = find_part("part6")
    config = replace(config_of(part, None), wasted_time=0.0, **place.sizes)
    contest = contest_of(part, script, config, place.data, place.device)
    with replace(contest, environment={**contest.environment, **environment}).script(script) as running:
        running.epoch()  # fills the cache
        share, milliseconds = copies(running)
    return Found(f"{share:.0%} hidden; a step takes {milliseconds:.1f} ms", None, {"hidden": share, "ms": milliseconds})


def hides(script: Callable[[Place], Path], least: float, most: float, **environment: str) -> Row:
    """Return the row of a script that hides a share of its copies between two limits."""

    def row(place: Place) -> Found:
        found = hidden_copies(script(place), place, **environment)
        found.met = least <= found.figures["hidden"] <= most
        return found

    return row


def solution(number: int) -> Callable[[Place], Path]:
    """Return what returns the solution of a part."""
    return lambda _: ROOT / "solutions" / f"part{number}.py"


def checked(part: str, script: Callable[[Place], Path], *exit_codes: int) -> Row:
    """Return the row of a check that ends with one of some exit codes."""

    def row(place: Place) -> Found:
        path = script(place)
        where = ["--script", path, "--data", place.data, "--device", place.device]
        return of_verdict(place.workshop("check", part, *where, fails=True), *exit_codes)

    return row


def of_verdict(verdict: dict[str, Any], *exit_codes: int) -> Found:
    """Return a verdict as a row, which is met if it ends with one of these exit codes."""
    says = f"{verdict['outcome']}: {'; '.join(verdict['reasons'])}"
    return Found(says, verdict["exit_code"] in exit_codes, {"verdict": verdict})


def idle(part: str) -> Callable[[Place], Path]:
    """Return what makes a part's original with a line that does nothing."""

    def make(place: Place) -> Path:
        from workshop.parts import find_part

        found = find_part(part)
        return place.script(found.script, f"{found.original_script.read_text()}\nFAST = True\n")

    return make


RESNET = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet50

device = torch.device("{device}")
data = TensorDataset(torch.randn({items}, 3, {side}, {side}), torch.randint(0, 37, ({items},)))
model = resnet50(num_classes=37).to(device)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler(device.type, enabled={amp})
for epoch in range(10_000):
    for images, targets in DataLoader(data, batch_size={batch}, shuffle=True, pin_memory={pinned}):
        images, targets = images.to(device), targets.to(device)
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.float16, enabled={amp}):
            loss = nn.functional.cross_entropy(model(images), targets)
        scaler.scale(loss).backward()
        {planted}
        scaler.step(optimizer)
        scaler.update()
"""


def resnet(place: Place, planted: str = "", amp: bool = False, pin: bool = False, name: str = "resnet.py") -> Path:
    """Write a script whose time goes into the device."""
    on_gpu = place.device.startswith("cuda")
    sizes = {"items": 512, "side": 224, "batch": 64} if on_gpu else {"items": 16, "side": 64, "batch": 4}
    values = {"device": place.device, "planted": planted or "pass", "amp": amp, "pinned": pin}
    return place.script(name, RESNET.format(**sizes, **values))


def recorded(place: Place, script: Path) -> Path:
    """Record a script with torch.profiler, and return the folder of the trace."""
    return Path(place.run("-m", "workshop", "record", "torch", "--stop", "--", script).args, "prof")


def measured_phases(place: Place) -> Found:
    """Compare the phases of `workshop measure` with the device times in a trace of the same script."""
    script = resnet(place)
    measured = place.workshop("measure", "--seconds", 6, "--no-headroom", script)
    phases = measured["synchronized"] or measured["steps"]
    ours = 1e3 * sum(phases["phases_s"][each] for each in ("forward", "backward", "optimizer")) / phases["count"]
    trace = place.workshop("trace", recorded(place, script))
    copied = sum(row["time(us)"] for row in trace["memory"] if "HtoD" in row["name"])
    busy = sum(row["device_busy(us)"] for row in trace["steps"])
    theirs = (busy - copied) / len(trace["steps"]) / 1e3
    off = abs(ours / theirs - 1) if theirs else 1.0
    says = (
        f"forward, backward and optimizer {ours:.1f} ms a step, kernels in the trace {theirs:.1f} ms: {off:.1%} apart"
    )
    return Found(says, off <= 0.05, {"measure_ms": ours, "trace_ms": theirs})


def planted_wait(place: Place) -> Found:
    """Plant `.item()` in a script, and see in its trace what the device does meanwhile."""
    without, with_wait = (
        place.workshop("trace", recorded(place, resnet(place, planted)))["temporal"][0]["idle_time_pctg"]
        for planted in ("", "[parameter.grad.norm().item() for parameter in model.parameters()]")
    )
    says = f"the device is idle for {without:.1f} % of the time without it, {with_wait:.1f} % with it"
    return Found(says, with_wait > without, {"idle_without": without, "idle_with": with_wait})


def own_trace(place: Place) -> Found:
    """Read a trace of our own; what is computed as HolisticTraceAnalysis does must add up, too."""
    folder = recorded(place, resnet(place))
    found = place.workshop("trace", folder)
    theirs = place.workshop("trace", "--hta-compat", folder)
    rows = {name: len(found[name]) for name in ("temporal", "idle", "launch", "kernels", "memory")}
    ours, compatible = found["temporal"][0], theirs["temporal_breakdown"][0]
    parts = sum(compatible[f"{kind}_time(us)"] for kind in ("idle", "compute", "non_compute"))
    says = ", ".join(f"{count} {name}" for name, count in rows.items())
    shares = f"idle for {ours['idle_time_pctg']:.1f} % of the time, as HTA counts {compatible['idle_time_pctg']:.1f} %"
    adds_up = abs(parts - compatible["kernel_time(us)"]) <= 2
    return Found(
        f"rows: {says}; {shares}", all(rows.values()) and adds_up, {"rows": rows, "temporal": [ours, compatible]}
    )


def links(place: Place) -> Found:
    """Draw the links of part 9 in each way."""
    import torch
    from lattice import measure as draw

    rounds = 3 if place.device.startswith("cuda") else 2  # QR on a GPU takes seconds
    draws, steps = draw(torch.device(place.device), rounds, 64)
    ms = {way: 1e3 * min(seconds) for way, seconds in draws.items()}
    ratio = ms["the same on the CPU, and moved"] / ms["closed form, parts apart"]
    says = "; ".join(f"{way} {each:.1f} ms (a whole step {1e3 * min(steps[way]):.1f})" for way, each in ms.items())
    return Found(f"{says}: {ratio:.0f} times as fast as the CPU's QR, moved", ratio >= 10, {"ms": ms})


def mixed_precision(place: Place) -> Found:
    """Compare a script with autocast and GradScaler with one that pins its memory besides."""
    old, new = (
        resnet(place, amp=True, pinned=pinned, name=name) for pinned, name in ((False, "old.py"), (True, "new.py"))
    )
    return of_verdict(place.workshop("compare", "--target", 0.5, old, new, fails=True), 0)


def two_ranks(place: Place) -> Found:
    """Let two ranks train on one GPU, which NCCL does not do: it must be said in a line."""
    from workshop.course.checks import config_of
    from workshop.parts import find_part

    config = place.script("config.py", replace(config_of(find_part("part10"), None), max_epochs=1).to_source())
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    script = [ROOT / "solutions" / "part10.py", config, "--data", place.data, "--device", place.device]
    done = place.run(*torchrun, *script, fails=True)
    lines = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stdout.splitlines()
    traced = "Traceback" in done.stderr
    return Found(
        f"exit code {done.returncode}: {lines[-1][:150] if lines else ''}", not traced, {"stderr": done.stderr}
    )


CLAIMS = {
    "first-command": Claim("the untouched script waits for data for 90 % of the time at least", first_command),
    "hidden-untouched": Claim("part 6: the script as it comes hides none of its copies", hides(solution(5), 0.0, 0.1)),
    "hidden-solution": Claim("part 6: the solution hides 90 % at least", hides(solution(6), 0.9, 1.0)),
    "hidden-late": Claim("part 6: a copy that is queued after `.item()` is not hidden", hides(late, 0.0, 0.1)),
    "hidden-blocking": Claim(
        "part 6: with CUDA_LAUNCH_BLOCKING=1 the solution hides nothing",
        hides(solution(6), 0.0, 0.0, CUDA_LAUNCH_BLOCKING="1"),
    ),
    "hidden-pinned": Claim("part 6: `pin_memory=True` alone hides nothing", hides(pinned, 0.0, 0.1)),
    "hidden-timm": Claim("beside them: timm's PrefetchLoader", hides(by_timm, 0.0, 1.0)),
    "measured-phases": Claim("`measure`: the phases are those of the device, within 5 %", measured_phases),
    "planted-wait": Claim("`trace`: an `.item()` for each parameter leaves the device idle", planted_wait),
    "trace": Claim("`record torch` and `trace` show what the device did; --hta-compat adds up", own_trace),
    "links": Claim("part 9: the closed form is 10 times as fast as QR on the CPU, moved", links),
    "part3": Claim("`check part3` accepts the solution", checked("part3", solution(3), 0), True),
    "part5": Claim("`check part5` accepts the solution", checked("part5", solution(5), 0), True),
    "part6": Claim("`check part6` accepts the solution", checked("part6", solution(6), 0), True),
    "part9": Claim(
        "`check part9` finds the solution's links right, and its question open",
        checked("part9", solution(9), 0, 1),
        True,
    ),
    "part3-idle": Claim(
        "`check part3` does not accept the script as it comes", checked("part3", idle("part3"), 1), True
    ),
    "part6-late": Claim("`check part6` does not accept a copy after `.item()`", checked("part6", late, 1), True),
    "part9-idle": Claim(
        "`check part9` does not accept the script as it comes", checked("part9", idle("part9"), 1), True
    ),
    "compiled": Claim("`check part3` accepts torch.compile", checked("part3", compiled, 0), True),
    "mixed-precision": Claim("`compare`: autocast and GradScaler are the same work twice", mixed_precision, True),
    "two-ranks": Claim("part 10: two ranks on one GPU end without a traceback", two_ranks, True),
}


if __name__ == "__main__":
    main()
