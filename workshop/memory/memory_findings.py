"""What could be freed: the cause, the line, who holds it, and how much that is."""

from dataclasses import asdict, dataclass
from typing import Any

from workshop.terminal import size_text

MIN_BYTES = 4 << 20
MIN_SHARE = 0.03
"""A finding that frees less than this, or a smaller share of the peak, is not reported."""

FIRST = ("graph-kept", "outputs-kept", "objects-kept")
"""What grows comes first: it has no end."""

OPTIONS = ("checkpointing",)
"""What was tried, and needed less: not to use it is no fault."""


@dataclass(frozen=True)
class MemoryFinding:
    """Something that takes memory and need not."""

    cause: str
    """A stable name, such as "graph-kept"."""
    place: str
    """Where the memory is: "cpu" or "cuda:0" for tensors, "host" for what processes have besides."""
    file: str
    """The path of the script or module with the line to change; empty if no line is known."""
    line: int | None
    function: str
    holder: str
    """Who holds it, such as "history.losses[...]"; empty if nobody was found, or asked for."""
    gain_bytes: int
    """What the peak would be lower by; of what grows, what had come together when the watch was over."""
    share: float
    """The share of the peak, of the device or of all processes."""
    measured: bool
    """Whether it was measured; otherwise it is estimated."""
    bytes_a_step: float
    """How much each step adds; 0 if it does not grow."""
    words: str
    """What to do about it, in a sentence or two."""
    basis: str
    """How `gain_bytes` is known."""
    process: str = "training"
    """"training" or "worker"; in a run with several ranks, "rank 1"."""

    @property
    def is_option(self) -> bool:
        """Whether it needed less in a trial: not to use it is no fault."""
        return self.cause in OPTIONS

    @property
    def is_worth_it(self) -> bool:
        """Whether it frees enough to be reported; what grows does in the end."""
        return bool(self.bytes_a_step) or (self.gain_bytes >= MIN_BYTES and self.share >= MIN_SHARE)

    @property
    def order(self) -> tuple[float, ...]:
        """What grows comes first, then what frees most; options come last."""
        return self.cause not in FIRST, self.is_option, -self.gain_bytes

    def costs(self, rough: str) -> str:
        """Return what it takes and who holds it, in sentences; `rough` stands before what is derived."""
        gain, basis = f"{rough}{size_text(self.gain_bytes)}", self.basis.partition(":")[0]
        takes = f"Frees {gain}, {self.share:.0%} of the peak ({basis})."
        if self.bytes_a_step:
            takes = f"Grows by {size_text(self.bytes_a_step)} a step, {gain} so far ({basis})."
        return f"{takes} Held by {self.holder}." if self.holder and self.holder not in self.words else takes

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain values for JSON."""
        return asdict(self)
