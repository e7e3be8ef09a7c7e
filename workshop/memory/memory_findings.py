"""What could be freed: the cause, the line, who holds it, and how much that is."""

from dataclasses import asdict, dataclass
from typing import Any

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

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain values for JSON."""
        return asdict(self)


def in_order(findings: list[MemoryFinding]) -> list[MemoryFinding]:
    """Return the findings worth reporting: what grows, then those that free most, options last."""
    worth = [each for each in findings if is_worth_it(each)]
    return sorted(
        worth, key=lambda each: (each.cause in FIRST, each.cause not in OPTIONS, each.gain_bytes), reverse=True
    )


def is_worth_it(finding: MemoryFinding) -> bool:
    """Return whether it frees enough; what grows does in the end."""
    if finding.bytes_a_step:
        return True
    return finding.gain_bytes >= MIN_BYTES and finding.share >= MIN_SHARE
