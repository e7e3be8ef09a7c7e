"""What holds a script up: the cause, the line, and the most that fixing it can bring."""

from dataclasses import asdict, dataclass
from typing import Any

from workshop.profiles.stacks import Frame

MIN_GAIN = 1.05
"""What can bring less is not worth a sentence."""

LITTLE = 0.04
"""What takes a smaller share of a step is not worth a sentence, either."""

MAX_GAIN = 1000.0
"""A larger gain than this cannot be told from shares of the time."""

BESIDES = 1.25
"""A line costs up to this many times its own time: what comes after it finds cold caches and sleeping threads."""


FIRST = ("growing-steps", "slow-rank")

OF_WORKERS = ("few-workers", "worker-contention", "worker-restarts", "large-batches")
"""The causes that a trial with another number of workers has shown."""


@dataclass(frozen=True)
class Finding:
    """Something that holds a script up, and can be fixed."""

    cause: str
    """A stable name, such as "slow-item"."""
    phase: str
    """The phase of the step that it costs time in; empty if it is more than one."""
    file: str
    """The path of the script or module; empty where no line causes it."""
    line: int | None
    function: str
    process: str
    """"training" or "worker"; of a run with several ranks "rank 1" or "rank 1, worker"."""
    ms_a_step: float
    share: float
    """The share of a step's time."""
    gain: float
    """The most that fixing it can bring, times as fast."""
    measured: bool
    """Whether the gain has been measured; else it follows from shares of the time."""
    words: str
    """What to do about it, in a sentence or two."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def finding(
    cause: str,
    words: str,
    *,
    gain: float,
    ms_a_step: float,
    share: float,
    phase: str = "",
    path: tuple[Frame, ...] = (),
    process: str = "training",
    besides: float | None = None,
    max_gain: float = MAX_GAIN,
    measured: bool = False,
) -> Finding:
    """Make a finding about the last line of a path of own frames.

    What it costs is taken for a bit more than was seen, because its gain is a limit: `besides` times as much, which is
    `BESIDES` by default, and 1 for a gain that was measured; but the gain is never more than `max_gain`.
    """
    frame = path[-1] if path else Frame("", "")
    functions = [each.name for each in path if each.name == "<module>" or not each.name.startswith("<")]
    function = functions[-1] if functions else frame.name
    besides = besides or (1.0 if measured else BESIDES)
    gain = min(1.0 + besides * (gain - 1.0), max_gain, MAX_GAIN)
    return Finding(
        cause, phase, frame.path, frame.line, function, process, ms_a_step, min(share, 1.0), gain, measured, words
    )


def gain_of(before_ms: float, after_ms: float) -> float:
    """Return how many times as fast a step is that takes another time; `MAX_GAIN` at most."""
    return min(before_ms / max(after_ms, 1e-9), MAX_GAIN)


def in_order(findings: list[Finding]) -> list[Finding]:
    """Return the findings that are worth saying, those that can bring most first.

    Steps that grow, and a rank that all others wait for, come before: other findings may be made of them.
    """
    worth = [each for each in findings if each.gain >= MIN_GAIN]
    return sorted(worth, key=lambda each: (each.cause in FIRST, each.gain), reverse=True)
