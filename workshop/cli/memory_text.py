"""The memory of a script as a person reads it, in 80 columns: the peak, the processes, and what to free."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from workshop.cli.finding_text import print_findings, shortened
from workshop.cli.output import console, filled
from workshop.cli.result_text import filled_crash
from workshop.cli.terminal_tables import bar, table
from workshop.memory.batch_size import LargestBatch
from workshop.memory.growth import GrowingLine
from workshop.memory.host_table import WORKER, HostTable
from workshop.memory.memory_diagnosis import MemoryDiagnosis
from workshop.memory.memory_lines import DevicePeak, LineMemory
from workshop.notebooks.cell_places import place
from workshop.probe.memory.memory_notes import SegmentName, TensorKind
from workshop.runs.other_load import about
from workshop.terminal import UNITS, cut, size_text

MIN_SHARE = 0.02
"""Share of the peak, at least, of a line in the table."""


def print_memory(name: str, diagnosis: MemoryDiagnosis) -> None:
    """Print what there is at the peak, what grows, what the processes have, and what could be freed."""
    out, found = console(), diagnosis.measured
    rough = about(found.machine is not None and found.machine.busy)
    steps = f", {found.steps.count} steps of {rough}{found.steps.ms_a_step:.1f} ms" if found.steps else ""
    out.print(Text(f"\n{name}: {_headline(diagnosis)}{steps}"))
    if diagnosis.failure:
        out.print(Text(f"\n{filled(diagnosis.failure)}", "bold red"))
    if found.crash and not found.killed:
        out.print(Text(f"\n{filled_crash(found.crash)}", "bold red"))
    for rank, of_devices in diagnosis.rank_peaks.items():
        sizes = ", ".join(f"{size_text(size)} on {device}" for device, size in of_devices.items())
        out.print(f"rank {rank}: {sizes} at the peak")
    for each in diagnosis.peaks:
        out.print("", _peak(each), sep="\n")
        if each.largest_lines:
            out.print(Text(_largest(each, "line" if found.is_followed else "known line")))
        if each.segment.failure:
            out.print("\nThis was held when the allocation failed.")
    if growing := diagnosis.growing:
        out.print("", _growing(growing), sep="\n")
    if host := diagnosis.host:
        out.print("", _host(host), sep="\n")
    if held := diagnosis.held:
        out.print("", _held_in_python(held), sep="\n")
    for note in found.notes:
        out.print(Text(f"\n{filled(note)}"))
    if largest := diagnosis.largest_batch:
        out.print(Text(f"\n{filled(batch_text(largest))}"))
    causes = diagnosis.findings
    print_findings(causes, "", "No fault of the script, but it needed less in a trial:")
    if not causes and found.is_followed:
        out.print("\nNone of the known causes was found.")


def batch_text(largest: LargestBatch) -> str:
    """Return what is known of the largest batch."""
    return (
        f"Largest batch that fits into {size_text(largest.free_bytes)} more on {largest.device}: about "
        f"{largest.samples:.0f} samples ({largest.low:.0f} to {largest.high:.0f}), now {largest.now}. "
        f"Each sample takes {size_text(largest.bytes_a_sample)} at the peak ({largest.basis})."
    )


def _headline(diagnosis: MemoryDiagnosis) -> str:
    what = "of tensors" if diagnosis.measured.is_followed else "allocated"
    peaks = [f"{size_text(each.memory.peak_bytes)} {what} on {each.device}" for each in diagnosis.peaks]
    host = [f"{size_text(diagnosis.host.together_bytes)} in all processes"] if diagnosis.host else []
    return ", ".join([*peaks, *host]) or "no tensors were seen"


def _peak(peak: DevicePeak) -> Table:
    """The kinds of tensors at the peak of a device, each with its three largest lines; twelve where none is known."""
    is_snapshot = peak.segment.name == SegmentName.SNAPSHOT
    when = peak.segment.name if is_snapshot else f"{peak.segment.name}, step {peak.segment.step}"
    moment = "when an allocation failed" if is_snapshot and peak.segment.failure else "at the peak"
    whole = peak.memory.peak_bytes
    unit, unit_name = UNITS[1] if whole >= UNITS[1][0] else UNITS[2]
    rows: list[Sequence[str | Text]] = []
    for kind, size in peak.kinds.items():
        rows.append((kind, f"{size / unit:.1f}", f"{size / whole:.0%}", bar(size, whole)))
        lines = [each for each in peak.lines if each.kind == kind and each.bytes >= MIN_SHARE * whole and each.file]
        for line in lines[: 12 if kind == TensorKind.UNKNOWN else 3]:
            at = cut(f"  {place(line.file, line.line)}, {line.function}", 36)
            rows.append([Text(each, "dim") for each in (at, f"{line.bytes / unit:.1f}", "", _held(line))])
    rows.append(("together", f"{whole / unit:.1f}", "100%", ""))
    return table((f"{peak.device} {moment} ({when})", unit_name, "share", ""), rows, right=(1, 2), padding=1)


def _largest(peak: DevicePeak, what: str) -> str:
    line, *others = peak.largest_lines
    at = f"{place(line.file, line.line)}, in {line.function}"
    source = shortened(line.text)
    text = f"\n       {source}" if source else ""
    which = f"first of {len(others) + 1} {what}s that make most of it" if others else f"{what} that makes most of it"
    share = sum(each.bytes for each in peak.largest_lines) / peak.memory.peak_bytes
    return f"\nThe {which}, {share:.0%}{' together' if others else ''}: {at}{text}"


def _held(line: LineMemory) -> str:
    """Who holds it; or since when it is there, if that is not known and not this step."""
    if line.holder:
        return f"held by {cut(line.holder, 20)}"
    said = {"before the first step": "since the start", "this step": "", "": ""}
    return said.get(line.since, f"since {line.since}")


def _growing(lines: list[GrowingLine]) -> Table:
    """The three lines that grow most."""
    rows = []
    for each in lines[:3]:
        at = f"{place(each.file, each.line)}, {each.function}" if each.file else "no line known"
        held_by = f"{each.held_by}{', each epoch' * (each.until == 'epoch')}"
        rows.append((cut(at, 30), size_text(each.bytes_a_step), size_text(each.bytes), cut(held_by, 28)))
    return table(("grows", "a step", "so far", "held by"), rows, right=(1, 2))


def _host(host: HostTable) -> Table:
    """The processes, and the first four workers: what each has by itself, and what it shares."""
    rows, workers, shown = [], 0, 4
    for each in host.processes:
        workers += each.role == WORKER
        if workers > shown and each.role == WORKER:
            continue
        name = f"{each.role} {workers}" if each.role == WORKER else each.role
        sizes = (each.memory.private, each.memory.shared, each.memory.pss, each.grown_bytes)
        rows.append((name, *(f"{size / 2**20:.1f}" for size in sizes)))
    if workers > shown:
        rows.append((f"and {workers - shown} more workers",))
    sums = {"together": host.together_bytes}
    if host.shared_memory_bytes >= 1 << 20:
        sums["/dev/shm"] = host.shared_memory_bytes
    if host.prefetched_bytes:
        sums["loaded ahead, at most"] = host.prefetched_bytes
    rows += [(name, "", "", f"{size / 2**20:.1f}") for name, size in sums.items()]
    return table(("MiB", "private", "shared", "its share", "grown by"), rows, right=range(1, 5))


def _held_in_python(held: list[dict[str, Any]]) -> Table:
    """The five largest containers and arrays of the training, each with the line that fills it."""
    rows = []
    for each in held[:5]:
        at = place(each["file"], each["line"]) if each["line"] else ""
        what = each["what"] if each["dtype"] else f"{each['what']} of {each['length']}"
        rows.append((cut(each["holder"], 24), f"{each['bytes'] / 2**20:.1f}", cut(what, 32), at))
    return table(("held in Python", "MiB", "what it is", "filled at"), rows, right=(1,))
