"""The claims about CUDA, and how each of them is measured: the rows of `cuda.py`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cuda_memory import MEMORY
from cuda_rows import Claim, Found, Place, Row, resnet
from cuda_scripts import SCRIPTS
from lattice import measure as draw_links

from workshop.course.checks import config_of, contest_of
from workshop.experiment import load_config
from workshop.parts import find_part
from workshop.parts.part6.copies_check import copies_in, traced
from workshop.profiles import line_profile

ROOT = Path(__file__).parents[1]


def first_command(place: Place) -> Found:
    """Profile the untouched script line by line, as the README's first command does."""
    source = replace(load_config(ROOT / "configs" / "gpu_config.py"), dataset="stand-in", max_epochs=1)
    fewer = place.sizes | {"max_items": place.sizes["max_items"] // 2}
    config = place.script("config.py", replace(source, **fewer).to_source())
    script = ROOT / "train.py"
    options = ["--data", place.data, "--device", place.device]
    folder = place.new_folder()
    place.run("-m", "kernprof", "-lv", script, config, *options, folder=folder)
    main = line_profile.read(folder / "train.py.lprof").find(script, "main")
    assert main
    assert main.hottest
    share = main.share(main.hottest.number)
    line = script.read_text().splitlines()[main.hottest.number - 1].strip()
    return Found(f"{share:.1%} of main: `{line}`", "in batches" in line and share >= 0.9, {"share": share})


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


def copying(script: Path, place: Place) -> Found:
    """Look how a script copies its batches, and measure its steps."""
    part = find_part("part6")
    config = replace(config_of(part, None), wasted_time=0.0, **place.sizes)
    contest = contest_of(part, script, config, place.data, place.device)
    with contest.script(script) as running:
        running.epoch()  # fills the cache
        trace = traced(running)
        if trace is None:
            return Found("torch.profiler wrote no trace", None, {"share": 0.0})
        made = copies_in(trace)
        ms = 1e3 * running.epoch().seconds / (running.epoch_steps or 1)
    # The first copy of an epoch has nothing to hide behind.
    columns = {name: getattr(made, name)[1:] for name in ("pinned", "unwaited", "apart")}
    says = ", ".join(f"{int(column.sum())} {name}" for name, column in columns.items())
    asynchronous = np.logical_and.reduce(list(columns.values()))
    share = float(asynchronous.mean()) if len(asynchronous) else 0.0
    says = f"of {len(asynchronous)} copies after the first {says}; a step takes {ms:.1f} ms"
    return Found(says, None, {"share": share, "ms": ms})


def copies(script: Callable[[Place], Path], least: float, most: float) -> Row:
    """Return the row of a script whose share of asynchronous copies is between two limits."""

    def row(place: Place) -> Found:
        found = copying(script(place), place)
        found.met = least <= found.figures["share"] <= most
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

        found = find_part(part)
        return place.script(found.script, f"{found.original_script.read_text()}\nFAST = True\n")

    return make


def recorded(place: Place, script: Path) -> Path:
    """Record a script with torch.profiler, and return the folder of the trace."""
    folder = place.new_folder()
    place.run("-m", "workshop", "record", "torch", "--stop", "--", script, folder=folder)
    return folder / "prof"


def measured_phases(place: Place) -> Found:
    """Compare the phases of `workshop measure` with the device's time in a trace of the same script.

    That is from the first kernel to the last, less the copies: a phase lasts until its last kernel ends, gaps included.
    """
    script = resnet(place)
    measured = place.workshop("measure", "--seconds", 6, "--no-headroom", script)
    phases = measured["synchronized"] or measured["steps"]
    ours = 1e3 * sum(phases["phases_s"][each] for each in ("forward", "backward", "optimizer")) / phases["count"]
    trace = place.workshop("trace", recorded(place, script))
    copied = sum(row["time(us)"] for row in trace["memory"] if "HtoD" in row["name"])
    whole = sum(row.get("kernel_time(us)", 0.0) for row in trace["temporal"])
    busy = sum(row["device_busy(us)"] for row in trace["steps"])
    theirs, kernels = ((each - copied) / len(trace["steps"]) / 1e3 for each in (whole, busy))
    off = abs(ours / theirs - 1) if theirs else 1.0
    says = f"{ours:.1f} ms a step, the device {theirs:.1f} ms, its kernels alone {kernels:.1f} ms: {off:.1%} apart"
    return Found(says, off <= 0.05, {"measure_ms": ours, "trace_ms": theirs, "kernels_ms": kernels})


def planted_wait(place: Place) -> Found:
    """Plant `.item()` in a script, and see in its trace what the device does meanwhile."""
    without, with_wait = (
        place.workshop("trace", recorded(place, resnet(place, planted)))["temporal"][0]["idle_time_pctg"]
        for planted in ("", "[parameter.grad.norm().item() for parameter in model.parameters()]")
    )
    says = f"the device is idle for {without:.1f} % of the time without it, {with_wait:.1f} % with it"
    return Found(says, with_wait > without, {"idle_without": without, "idle_with": with_wait})


def named_wait(place: Place) -> Found:
    """Plant a line that waits for the device, and see whether `workshop measure` names it."""
    script = resnet(place, "[parameter.grad.norm().item() for parameter in model.parameters()]")
    found = place.workshop("measure", "--seconds", 6, "--no-headroom", script)["findings"]
    waits = [each for each in found if each["cause"] == "device-sync"]
    named = waits and ".item()" in script.read_text().splitlines()[waits[0]["line"] - 1]
    says = f"line {waits[0]['line']}, {waits[0]['ms_a_step']:.1f} ms a step" if waits else "no line is named"
    return Found(says, bool(named), {"findings": found})


def pinned_memory(place: Place) -> Found:
    """Have `workshop measure` try copies from pinned memory, and then measure the script with them."""
    source = resnet(place).read_text()
    call = next(line for line in source.splitlines() if "in DataLoader(" in line).partition(" in ")[2].rstrip(":")
    loader = f"loader = {call[:-1]}, num_workers=2, persistent_workers=True)"
    plain = source.replace(call, "loader").replace("for epoch in", f"{loader}\nfor epoch in")
    pinned = plain.replace("pin_memory=False", "pin_memory=True").replace("(device)", "(device, non_blocking=True)")
    slow, fast = (
        place.workshop("measure", "--seconds", 6, "--no-headroom", place.script("train.py", each))
        for each in (plain, pinned)
    )
    tried = [each for each in slow["trials"] if each["name"] == "pageable-copy"]
    if not tried or tried[0]["error"]:
        return Found(f"not tried: {tried[0]['error'] if tried else 'no copies that take time'}", None, {"slow": slow})
    found = [each for each in slow["findings"] if each["cause"] == "pageable-copy"]
    reached = ms_a_step(slow) / ms_a_step(fast)
    limits = (found[0]["gain_low"] or 1.0, found[0]["gain"]) if found else (tried[0]["gain"],) * 2
    says = f"tried: {limits[0]:.2f}x to {limits[1]:.2f}x; with pinned memory the script is {reached:.2f}x faster"
    met = limits[0] / 1.05 <= reached <= limits[1] * 1.05
    return Found(says, met, {"tried": tried[0], "findings": found, "reached": reached})


EDITS = {
    "bfloat16": ("torch.float16, enabled=False", "torch.bfloat16"),
    "channels-last": ("37).to(device)", "37).to(device, memory_format=torch.channels_last)"),
    "fused-optimizer": ("AdamW(model.parameters())", "AdamW(model.parameters(), fused=True)"),
}
"""What some of the trials of `workshop measure` try, as an edit of `RESNET`."""

CLOSE = 1.3


def trials(place: Place) -> Found:
    """Have `workshop measure` try other ways to compute, and then measure the script with some of them."""
    script = resnet(place)
    slow = place.workshop("measure", "--seconds", 6, "--no-headroom", "--thorough", script)
    tried = {each["name"]: each for each in slow["trials"]}
    stated = {name: each["error"] or f"{each['gain']:.2f}x" for name, each in tried.items()}
    says, off = [], []
    for name, (before, after) in EDITS.items():
        if name in tried and not tried[name]["error"]:
            edited = place.script("train.py", script.read_text().replace(before, after))
            fast = place.workshop("measure", "--seconds", 4, "--no-headroom", edited)
            reached = ms_a_step(slow) / ms_a_step(fast)
            says.append(f"{name} {stated.pop(name)}, reached {reached:.2f}x")
            off.append(max(reached / tried[name]["gain"], tried[name]["gain"] / reached))
    says += [f"{name} {gain}" for name, gain in stated.items()]
    met = len(off) == len(EDITS) and max(off) <= CLOSE
    return Found("; ".join(says), met, {"tried": tried, "off": off})


def ms_a_step(measured: dict[str, Any]) -> float:
    """Return the time of a step, of what `workshop measure --json` prints."""
    return float(1e3 * measured["steps"]["wall_s"] / measured["steps"]["count"])


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
    rounds = 3 if place.device.startswith("cuda") else 2  # QR on a GPU takes seconds
    draws, steps = draw_links(torch.device(place.device), rounds, 64)
    ms = {way: 1e3 * min(seconds) for way, seconds in draws.items()}
    ratio = ms["the same on the CPU, and moved"] / ms["closed form, parts apart"]
    says = "; ".join(f"{way} {each:.1f} ms (a whole step {1e3 * min(steps[way]):.1f})" for way, each in ms.items())
    return Found(f"{says}: {ratio:.0f} times as fast as the CPU's QR, moved", ratio >= 10, {"ms": ms})


def mixed_precision(place: Place) -> Found:
    """Compare a script with autocast and GradScaler with one that pins its memory besides."""
    old = resnet(place, amp=True, name="old.py")
    new = resnet(place, amp=True, pin=True, name="new.py")
    return of_verdict(place.workshop("compare", "--target", 0.5, old, new, fails=True), 0)


SUMMED = {
    "for images, targets in DataLoader(": "for number, (images, targets) in enumerate(DataLoader(",
    "):\n        images, targets =": "), 1):\n        images, targets =",
    "        optimizer.zero_grad()\n": "",
    "        scaler.step(optimizer)\n        scaler.update()": """        if number % 3 == 0 or number == len(data):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()""",
}
"""Edits of `RESNET`, after which a step takes three batches."""


def accumulated(place: Place) -> Found:
    """Compare a script with GradScaler whose steps take three of eight batches with one that pins its memory."""
    scripts = [resnet(place, amp=True, pin=pin, name=f"{name}.py") for name, pin in (("old", False), ("new", True))]
    for script in scripts:
        source = script.read_text()
        for before, after in SUMMED.items():
            source = source.replace(before, after)
        script.write_text(source)
    return of_verdict(place.workshop("compare", "--target", 0.5, *scripts, fails=True), 0)


OWN_CLOCK = """
import time
began = []
def tick():
    began.append(time.perf_counter())
    if {alone} and began[-1] - began[0] > 8:
        print(1e3 * (began[-1] - began[20]) / (len(began) - 21))
        raise SystemExit
"""


def measured_step(place: Place) -> Found:
    """Compare a step as `workshop measure` takes it with what it takes by the script's own clock, alone."""
    script = resnet(place, "tick()", small=True)
    source = script.read_text()
    alone = place.script("alone.py", OWN_CLOCK.format(alone=True) + source)
    script.write_text(OWN_CLOCK.format(alone=False) + source)
    alone_ms = float(place.run(alone).stdout.split()[-1])
    measured_ms = ms_a_step(place.workshop("measure", "--seconds", 6, "--no-headroom", script))
    off = measured_ms / alone_ms - 1
    says = f"{measured_ms:.2f} ms a step, alone {alone_ms:.2f} ms: {off:+.1%}"
    return Found(says, abs(off) <= 0.03, {"measured_ms": measured_ms, "alone_ms": alone_ms})


LAYERS = """
import torch
from torch import nn

device = torch.device("{device}")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(60))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        {planted}
        return x

model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
x = torch.randn(32, 64, device=device)
for step in range(1_000_000):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


def graphs(place: Place) -> Found:
    """Have `workshop measure` try a CUDA graph of many small layers, and of the same layers with a wait among them."""
    says, met = list[str](), list[bool]()
    for planted in ("pass", "x = x if x.sum().item() < 1e9 else -x"):
        script = place.script("layers.py", LAYERS.format(device=place.device, planted=planted))
        found = place.workshop("measure", "--seconds", 4, "--no-headroom", script)
        tried = next((each for each in found["trials"] if each["name"] == "cuda-graphs"), None)
        says.append("not tried" if tried is None else tried["error"] or f"{tried['gain']:.2f}x; {tried['results']}")
        can_be_recorded = planted == "pass"
        is_right = tried is not None and bool(tried["error"]) is not can_be_recorded and not found["crash"]
        met.append(is_right and (not can_be_recorded or tried["gain"] > 1))
    return Found("; ".join(says), all(met))


def emptied_cache(place: Place) -> Found:
    """Empty the allocator's cache in each step, and see whether `workshop measure` says what comes of it."""
    script = resnet(place, "torch.cuda.empty_cache()")
    notes = place.workshop("measure", "--seconds", 4, "--no-headroom", script)["notes"]
    said = [each for each in notes if "gave memory back to the GPU" in each]
    return Found(said[0] if said else "nothing is said", bool(said), {"notes": notes})


def two_ranks(place: Place) -> Found:
    """Let two ranks train where there is one GPU."""
    config = place.script("config.py", replace(config_of(find_part("part10"), None), max_epochs=1).to_source())
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    script = [ROOT / "solutions" / "part10.py", config, "--data", place.data, "--device", place.device]
    done = place.run(*torchrun, *script, fails=True)
    ours = done.stderr.partition("torch/distributed/elastic")[0]  # what follows is torchrun's own report
    lines = [line for line in ours.splitlines() if "no device" in line]
    says = f"exit code {done.returncode}: {lines[0] if lines else ours[-150:]}"
    return Found(says, bool(lines) and "Traceback" not in ours, {"stderr": done.stderr})


CLAIMS = {
    "first-command": Claim("the untouched script waits for data for 90 % of the time at least", first_command),
    "copies-untouched": Claim("part 6: no copy of the script as it comes is asynchronous", copies(solution(5), 0, 0)),
    "copies-solution": Claim("part 6: at least 90 % of the solution's are", copies(solution(6), 0.9, 1)),
    "copies-pinned": Claim("part 6: with `pin_memory=True` alone none is", copies(pinned, 0, 0)),
    "copies-timm": Claim("beside them: those of timm's PrefetchLoader", copies(by_timm, 0, 1)),
    "measured-phases": Claim("`measure`: the phases are those of the device, within 5 %", measured_phases),
    "planted-wait": Claim("`trace`: an `.item()` for each parameter leaves the device idle", planted_wait),
    "named-wait": Claim("`measure` names the line that waits for the device", named_wait),
    "pinned-memory": Claim(
        "`measure`: what copies from pinned memory bring lies within what its trial has stated, but for 5 %",
        pinned_memory,
    ),
    "trials": Claim("`measure`: what other ways to compute bring is what was stated, within 1.3 times", trials),
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
    "accumulated": Claim("`compare`: so are steps of three batches, where an epoch has eight", accumulated, True),
    "cuda-graphs": Claim(
        "`measure`: small layers are faster as a CUDA graph; of layers that wait, it says why not", graphs, True
    ),
    "emptied-cache": Claim("`measure` says that memory is given back to the GPU in each step", emptied_cache, True),
    "measured-step": Claim("`measure`: a step takes as long as without it, within 3 %", measured_step),
    **MEMORY,
    **SCRIPTS,
    "two-ranks": Claim("part 10: two ranks on one GPU are told in a line that there is no second one", two_ranks, True),
}
