"""The claims about the memory of a CUDA device, and how each of them is measured."""

import json

from cuda_rows import Claim, Found, Place, resnet

APART = 0.02
"""Sums may differ from the allocator's own by this share."""

KEPT_BYTES = 2**24
"""A pass of one picture keeps more than this many bytes."""

ENOUGH = 0.5
"""The line that allocates too much must have this share of what there is."""

RECORDED = """
        seen.append(0)
        if len(seen) == 2:
            torch.cuda.memory._record_memory_history(stacks="python")
            torch.cuda.reset_peak_memory_stats()
        if len(seen) == 5:
            torch.cuda.memory._dump_snapshot("snapshot.pickle")
            print(torch.cuda.memory_stats()["requested_bytes.all.peak"])
            raise SystemExit
"""


def kept_graphs(place: Place) -> Found:
    """Keep a value of each step with its graph, and see whether `workshop memory` names the line."""
    script = resnet(place, "seen.append(model(images[:1]).sum())")
    script.write_text(f"seen = []\n{script.read_text()}")
    found = place.workshop("memory", "--seconds", 8, script)["findings"]
    kept = next((each for each in found if each["cause"] == "graph-kept"), None)
    if kept is None:
        return Found("not found", False, {"findings": found})
    says = f"line {kept['line']}, {kept['bytes_a_step'] / 2**20:.0f} MiB a step on {kept['place']}"
    named = "seen.append" in script.read_text().splitlines()[(kept["line"] or 0) - 1]
    return Found(says, named and kept["bytes_a_step"] >= KEPT_BYTES * place.device.startswith("cuda"), {"kept": kept})


def out_of_memory(place: Place) -> Found:
    """Allocate more in each step than there is, and see whether what was held is told."""
    if not place.device.startswith("cuda"):
        return Found("the host's memory is left alone", None)
    script = resnet(place, "seen.append(torch.zeros(1 << 31, device=device))")
    script.write_text(f"seen = []\n{script.read_text()}")
    done = place.run("-m", "workshop", "memory", "--json", "--seconds", 60, script, fails=True)
    values = json.loads(done.stdout)
    peak = next((each for each in values["peaks"] if each["device"].startswith("cuda")), None)
    line = peak and peak["largest"]
    share = line["bytes"] / peak["peak_bytes"] if line else 0.0
    says = f"exit code {done.returncode}: {values['failure'][:100]}; {share:.0%} by `{line and line['text']}`"
    is_told = share >= ENOUGH and "torch.zeros(1 << 31" in line["text"]
    return Found(says, done.returncode == 5 and bool(values["failure"]) and is_told, {"largest": line})


def snapshot(place: Place) -> Found:
    """Have torch write a snapshot, and compare its peak with the allocator's own."""
    if not place.device.startswith("cuda"):
        return Found("torch records the memory of CUDA devices only", None)
    script = resnet(place)
    source = script.read_text().replace("        scaler.update()", f"        scaler.update(){RECORDED.rstrip()}")
    script.write_text(f"seen = []\n{source}")
    printed = place.run(script, folder=script.parent).stdout
    found = place.workshop("memory", script.parent / "snapshot.pickle")
    (peak,) = found["peaks"]
    off = abs(peak["peak_bytes"] / int(printed) - 1)
    line = peak["largest"]["text"] if peak["largest"] else "no known line"
    sizes = f"{peak['peak_bytes'] / 2**20:.1f} MiB, torch {int(printed) / 2**20:.1f}"
    says = f"{sizes}: {off:.1%} apart; most is made by `{line}`"
    return Found(says, off <= APART and "model(images)" in line, {"largest": peak["largest"]})


MEMORY = {
    "memory-graphs": Claim("`memory` names losses that are kept with their graphs", kept_graphs, True),
    "memory-failed": Claim("`memory` tells what was held when an allocation failed", out_of_memory),
    "memory-snapshot": Claim("`memory` reads a snapshot of torch: its peak is the allocator's, within 2 %", snapshot),
}
