"""The live picture of `workshop monitor`."""

import os
import select
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from workshop.runs.snapshot import START, Gpu, Snapshot, Watch


def show(watch: Watch, interval_s: float, once: bool, console: Console) -> None:
    """Show the picture until q or Ctrl-C, then averages; print it once if `once`, or without a terminal."""
    if once or not console.is_terminal or console.is_dumb_terminal:
        console.print(render(first_rates(watch, interval_s), console.width))
        return
    watch.snapshot()  # the first one has no rates
    averages = Averages()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live, keys() as wait_for_key:
            while wait_for_key(interval_s if averages.latest else 0.1) != "q":
                averages.add(snapshot := watch.snapshot())
                live.update(render(snapshot, console.width, "q ends. "), refresh=True)
    finally:
        console.print("\n".join(averages.lines()))


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits up to the given seconds for a key and returns it; "" if none was pressed."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield lambda seconds: str(time.sleep(seconds) or "")  # type: ignore[func-returns-value]
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([terminal], [], [], seconds)
        return os.read(terminal, 1).decode(errors="ignore") if ready else ""

    try:
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


class Averages:
    """The means of the machine and of each process over all snapshots; only sums are kept, as it may run for days."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.latest: Snapshot | None = None
        self._sums: dict[Hashable, tuple[float, int]] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Take a snapshot into account."""
        self.latest = snapshot
        for percent in snapshot.cores_percent:
            self._add("cores", percent)
        self._add("read", snapshot.disk_read_bytes_per_s)
        self._add("write", snapshot.disk_write_bytes_per_s)
        for gpu in snapshot.gpus:
            self._add(("GPU", gpu.index), gpu.busy_percent)
        for process in snapshot.processes:
            self._add(process.pid, process.cpu_percent)

    def lines(self) -> Iterator[str]:
        """Yield the means; of the processes, only those in the latest snapshot."""
        if self.latest is None:
            return
        yield f"Average of {time.monotonic() - self.begin:.0f} s"
        yield f"  cores {_figure(self._mean('cores'))} %"
        read, write = (_figure(self._mean(what), 1e6, 1) for what in ("read", "write"))
        yield f"  disk  read {read} MB/s, write {write} MB/s"
        for gpu in self.latest.gpus:
            yield f"  GPU {gpu.index} {_figure(self._mean(('GPU', gpu.index)))} %"
        for process in self.latest.processes:
            yield f"  {process.pid} {process.role}: cpu {_figure(self._mean(process.pid))} %"

    def _add(self, what: Hashable, value: float | None) -> None:
        if value is not None:
            total, count = self._sums.get(what, (0.0, 0))
            self._sums[what] = total + value, count + 1

    def _mean(self, what: Hashable) -> float | None:
        total, count = self._sums.get(what, (0.0, 0))
        return total / count if count else None


def first_rates(watch: Watch, interval_s: float) -> Snapshot:
    """Return the second of two snapshots, as rates need the time between two of them."""
    watch.snapshot()
    time.sleep(interval_s)
    return watch.snapshot()


def render(snapshot: Snapshot, width: int, keys: str = "") -> RenderableType:
    """Return the picture with lines cut at `width`; 80 columns show everything but long commands.

    `keys` says which keys may be pressed.
    """
    lines = [*_core_lines(snapshot.cores_percent, width), *_machine_lines(snapshot)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    if not snapshot.processes:
        return Group(*lines, Text(f"\nNo training run. Start the training in another terminal:\n  {START}"))
    note = f"{keys}cpu: 100 % is one core. RSS: memory; what is shared counts in each."
    return Group(*lines, Text(), _process_table(snapshot, width), Text(note, "dim", overflow="ellipsis", no_wrap=True))


def _core_lines(cores_percent: Sequence[float | None], width: int) -> list[Text]:
    """One cell per core; with more than 32 cores there is no room for bars, only for percentages."""
    columns = 2 if len(cores_percent) <= 8 else 4 if len(cores_percent) <= 32 else 8
    bar_width = (width - 8) // columns - 9
    cells = [
        Text(f"{core:3} ").append_text(_bar(percent, 100, bar_width)).append(f"{_figure(percent):>4}%")
        for core, percent in enumerate(cores_percent)
    ]
    starts = range(0, len(cells), columns)
    return [
        Text(" " * 8 if start else "cores   ").append_text(Text().join(cells[start : start + columns]))
        for start in starts
    ]


def _machine_lines(snapshot: Snapshot) -> list[Text]:
    used, total = snapshot.memory_used_bytes, snapshot.memory_total_bytes
    read = _figure(snapshot.disk_read_bytes_per_s, 1e6, 1)
    write = _figure(snapshot.disk_write_bytes_per_s, 1e6, 1)
    return [
        Text("memory  ").append_text(_bar(used, total, 27)).append(f"  {used / 2**30:.1f} of {total / 2**30:.1f} GiB"),
        Text(f"disk    read {read} MB/s, write {write} MB/s"),
        *(_gpu_line(gpu) for gpu in snapshot.gpus),
    ]


def _gpu_line(gpu: Gpu) -> Text:
    used, total = _figure(gpu.memory_used_bytes, 2**30, 1), _figure(gpu.memory_total_bytes, 2**30, 1)
    line = Text(f"GPU {gpu.index:<3} ").append_text(_bar(gpu.busy_percent, 100, 27))
    return line.append(f"{_figure(gpu.busy_percent):>4}%  {used} of {total} GiB  {gpu.name}")


def _process_table(snapshot: Snapshot, width: int) -> Table:
    """The table of processes; it has a column for GPU memory only if there are GPUs."""
    table = Table(box=None, width=width, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    # Minimum widths keep the columns in place as figures grow.
    table.add_column("pid", justify="right", min_width=7)
    table.add_column("role", no_wrap=True, min_width=10)
    for heading in ("cpu %", "RSS MiB", "read MB/s", *(["GPU MiB"] if snapshot.gpus else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True, min_width=10)
    table.add_column("command", no_wrap=True, overflow="ellipsis", ratio=1)
    for process in snapshot.processes:
        figures = [
            _figure(process.cpu_percent),
            _figure(process.rss_bytes, 2**20),
            _figure(process.disk_read_bytes_per_s, 1e6, 1),
            _figure(process.gpu_memory_bytes, 2**20),
        ]
        role = "  " * (process.depth - 1) + "└ " * (process.depth > 0) + process.role
        shown = figures if snapshot.gpus else figures[:-1]
        table.add_row(str(process.pid), role, *shown, process.status, Text(process.command))
    return table


def _bar(value: float | None, full: float, width: int) -> Text:
    filled = min(max(round((value or 0) / full * width), 0), width)
    return Text("█" * filled, "cyan").append("░" * (width - filled), "dim")


def _figure(value: float | None, unit: float = 1, digits: int = 0) -> str:
    return "-" if value is None else f"{value / unit:.{digits}f}"
