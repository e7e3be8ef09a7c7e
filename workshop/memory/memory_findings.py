"""What could be freed: the cause, the line, who holds it, and how much that is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workshop.memory.memory_lines import UNKNOWN
from workshop.probe.observations import WireFrame
from workshop.terminal import size_text, some_of

MIN_BYTES, MIN_SHARE = 4 << 20, 0.03
"""Bytes, and share of the peak, at least: a finding that frees less of either is not reported."""

OF_JSON = "cause place file line function holder gain_bytes share measured bytes_a_step words basis process".split()
"""What JSON has of a finding."""

MIN_SHARE_OF_ALL = 0.1
"""Share of all memory, at least, of what may well be meant: items that wait, and arrays that no dataset has."""


@dataclass(frozen=True)
class MemoryCause:
    """A way of taking memory that need not be, declared in the module that finds it.

    What has one name may be declared several times, with other words for each case.
    """

    name: str
    """A stable name, such as "graph-kept"."""
    words: str
    """What to do about it, in a sentence or two; the fields and figures of the finding stand in braces."""
    basis: str = ""
    """How the bytes are known where they are measured or counted, likewise."""
    estimated: str = ""
    """The same where they are not."""
    grows: bool = False
    """Whether it has no end: it comes first."""
    is_option: bool = False
    """Whether it was tried and needed less: not to use it is no fault."""


@dataclass(frozen=True)
class MemoryFinding:
    """Memory that is taken and need not be."""

    kind: MemoryCause
    place: str
    """Where the memory is: "cpu" or "cuda:0" for tensors, "host" for what processes have besides."""
    gain_bytes: int
    """What the peak would be lower by; of what grows, what had come together when the watch was over."""
    peak_bytes: float
    """The peak of the device, or of all processes; 0 if it is not known."""
    at: WireFrame = UNKNOWN
    """The line to change: its function, its file, and 0 if only these are known; all empty if no line is known."""
    holder: str = ""
    """Who holds it, such as "history.losses[...]"; empty if nobody was found, or asked for."""
    measured: bool = True
    """Whether the bytes are measured or counted; otherwise they are estimated."""
    bytes_a_step: float = 0.0
    """How much each step adds; 0 if it does not grow."""
    process: str = "training"
    """"training" or "worker"; in a run with several ranks, "rank 1"."""
    others: tuple[str, ...] = ()
    """Further holders of which the same is true; what they hold is counted with it."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What the words of this cause name besides."""

    @property
    def cause(self) -> str:
        """The stable name of the cause."""
        return self.kind.name

    @property
    def function(self) -> str:
        """The function to change."""
        return self.at[0]

    @property
    def file(self) -> str:
        """The path of the script or module with the line to change; empty if no line is known."""
        return self.at[1]

    @property
    def line(self) -> int | None:
        """The line to change; None if it is not known."""
        return self.at[2] or None

    @property
    def share(self) -> float:
        """The share of the peak."""
        return min(self.gain_bytes / self.peak_bytes, 1.0) if self.peak_bytes else 0.0

    @property
    def words(self) -> str:
        """What to do about it, in a sentence or two."""
        so_are = f" The same goes for {some_of(self.others)}." if self.others else ""
        return self._filled(self.kind.words) + so_are

    @property
    def basis(self) -> str:
        """How the bytes are known."""
        return self._filled(self.kind.basis if self.measured else self.kind.estimated)

    def _filled(self, text: str) -> str:
        return text.format(holder=self.holder, **self.figures)

    @property
    def is_worth_it(self) -> bool:
        """Whether it frees enough to be reported; what grows does in the end."""
        is_large = self.gain_bytes >= MIN_BYTES and (self.share >= MIN_SHARE or not self.peak_bytes)
        return bool(self.bytes_a_step) or is_large

    @property
    def order(self) -> tuple[float, ...]:
        """What findings are sorted by: what grows, then those that free most, options last."""
        return not self.kind.grows, self.kind.is_option, -self.gain_bytes

    @property
    def is_option(self) -> bool:
        """Whether it needed less in a trial: not to use it is no fault."""
        return self.kind.is_option

    def costs(self, rough: str) -> str:
        """Return what it takes and who holds it, in sentences; `rough` stands before what is derived."""
        gain, how = f"{rough}{size_text(self.gain_bytes)}", "measured" if self.measured else "estimated"
        takes = f"Frees {gain}, {self.share:.0%} of the peak ({how})."
        if self.bytes_a_step:
            takes = f"Grows by {size_text(self.bytes_a_step)} a step, {gain} so far ({how})."
        return f"{takes} Held by {self.holder}." if self.holder and self.holder not in self.words else takes

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain values for JSON."""
        return {name: getattr(self, name) for name in OF_JSON}
