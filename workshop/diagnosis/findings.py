"""What holds a script up: the cause, the line, and the most that mending it can bring."""

from dataclasses import asdict, dataclass
from typing import Any

from workshop.profiles.stacks import Frame

LEAST_GAIN = 1.05
"""What can bring less is not worth a sentence."""

MOST_GAIN = 1000.0
"""A larger gain than this cannot be told from shares of the time."""

LINE_FIRST = 1.15
"""A finding that names a line to mend comes before one about settings that promises up to this many times as much."""


@dataclass(frozen=True)
class Finding:
    """Something that holds a script up, and can be mended."""

    cause: str
    """A stable name, such as "slow-item"."""
    phase: str
    """The phase of the step that it costs time in; empty if it is more than one."""
    file: str
    """The path of the script or module; empty where no line causes it."""
    line: int | None
    function: str
    process: str
    """"training" or "worker"."""
    ms_a_step: float
    share: float
    """The share of a step's time."""
    gain: float
    """The most that mending it can bring, times as fast."""
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
    measured: bool = False,
) -> Finding:
    """Make a finding about the last line of a path of own frames."""
    frame = path[-1] if path else Frame("", "")
    functions = [each.name for each in path if each.name == "<module>" or not each.name.startswith("<")]
    function = functions[-1] if functions else frame.name
    return Finding(
        cause, phase, frame.path, frame.line, function, process, ms_a_step, min(share, 1.0), gain, measured, words
    )


def gain_of(before_ms: float, after_ms: float) -> float:
    """Return how many times as fast a step is that takes another time; `MOST_GAIN` at most."""
    return min(before_ms / max(after_ms, 1e-9), MOST_GAIN)


def in_order(findings: list[Finding]) -> list[Finding]:
    """Return the findings that are worth saying, those that can bring most first."""
    worth = [each for each in findings if each.gain >= LEAST_GAIN]
    return sorted(worth, key=lambda each: each.gain * _FIRST.get(each.cause, 1.0), reverse=True)


_FIRST = dict.fromkeys(("slow-item", "slow-collate", "own-work", "periodic-work", "tiny-operators"), LINE_FIRST)
_FIRST["growing-steps"] = 1e6  # there is no limit to what it will cost, and other findings may be made of it
