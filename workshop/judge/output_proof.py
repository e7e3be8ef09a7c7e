"""Whether as much is written as by the original, such as a line of a table for each step."""

from collections.abc import Iterator, Sequence

from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason, ReasonKind
from workshop.probe.events import LinesWritten

MIN_WRITTEN = 0.8
"""Share, at least, of the original's lines or bytes for each step that must be written."""


class OutputReason(ReasonKind):
    """What is said of files that a script writes."""

    FEWER_LINES = "{0} gets {candidate:.2g} lines for each step, in the original {original:.2g}"


def check_written(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that files to which the original writes a line or more for each step get as much from the candidate.

    What the candidate writes late, as at the end of an epoch, is compared with the steps before that. It may write to
    a file otherwise than by holding it open, or not at all, or when the run ends: that is not seen, and no complaint.
    """
    for name in sorted({each.name for each in original.written}):
        ours, theirs = ([each for each in of.written if each.name == name] for of in (original, candidate))
        steps, expected = sum(each.steps for each in ours), sum(each.lines for each in ours)
        is_steady = all(each.lines + 1 >= each.steps for each in ours)  # the last step's may come after the epoch
        late = [epochs for run in {each.run_index for each in theirs} if (epochs := _until_last_write(theirs, run))]
        steps_before = sum(each.steps for *before, _ in late for each in before)
        if not is_steady or expected < MIN_WRITTEN * steps or not steps_before:
            continue
        lines, size = (sum(getattr(each, what) for of in late for each in of) for what in ("lines", "size"))
        share = steps_before / steps
        if max(lines / expected, size / sum(each.size for each in ours)) < MIN_WRITTEN * share:
            yield OutputReason.FEWER_LINES(name, candidate=lines / steps_before, original=expected / steps)


def _until_last_write(epochs: Sequence[LinesWritten], run_index: int) -> list[LinesWritten]:
    """Return the epochs of a run up to the last one in which something was written; none if nothing was."""
    of_run = [each for each in epochs if each.run_index == run_index]
    last = max((number for number, each in enumerate(of_run, 1) if each.size), default=0)
    return of_run[:last]
