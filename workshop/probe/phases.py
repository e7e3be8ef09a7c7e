"""The phases of a training step: their names and their colours, for everything that measures or draws them."""

from enum import StrEnum


class Phase(StrEnum):
    """A part of a training step; the phases together are the whole step."""

    short: str
    """A single word for the phase: a column's header, a participant's answer."""
    colour: str
    """The colour of the phase in drawings, as CSS has it; it can be told apart on light and on dark ground."""

    def __new__(cls, name: str, short: str, colour: str) -> "Phase":
        """Make a member that is its name, with a short name and a colour."""
        phase = str.__new__(cls, name)
        phase._value_, phase.short, phase.colour = name, short, colour
        return phase

    DATA_WAIT = "data wait", "data", "#d95f5f"
    COPY = "host-to-device copy", "copy", "#8e7cc3"
    FORWARD = "forward", "forward", "#e69f3c"
    BACKWARD = "backward", "backward", "#3f88c5"
    OPTIMIZER = "optimizer", "optimizer", "#4c9f70"
    VALIDATION = "validation", "validation", "#b8860b"
    OTHER = "other", "other", "#9aa3ad"


COMPUTING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
"""The phases that are the same, however the data come."""

FORWARD_AND_VALIDATION = f"{Phase.FORWARD} and {Phase.VALIDATION}"
"""What both are called in a comparison of two scripts of which only one validates without gradients."""

TRACED = tuple(phase for phase in Phase if phase is not Phase.VALIDATION)
"""The phases that a trace of torch.profiler tells apart."""

MARK, STEP_END = "phase: ", "end of a training step"
"""In a trace of torch.profiler, how the name of a phase's range begins, and the name of a range where a step ends."""

CALLS = ".calls"
"""What is added to the name of a trace whose calls have no lines, for a file that has these."""
