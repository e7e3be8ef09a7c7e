"""Whether each photo was read, and waited for the slow storage, and shows something as it enters the model."""

from collections.abc import Iterator

from workshop.judge.ledger import Ledger, epochs, targets_in
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.signatures import values_of
from workshop.probe.events import SAMPLES, PhotoRead

MAX_FLAT = 0.02
"""Share of the pictures, at most, that may be of one colour beside twice the original's: transforms make some."""


class PhotoReason(ReasonKind):
    """What is said of photos."""

    WAIT_UNSEEN = (
        "how long {quick} of {reads} reads of a photo waited cannot be seen: wait for the slow storage with "
        "time.sleep, in the thread that reads",
        UNSEEN,
    )
    NO_WAIT = (
        "{quick} of {reads} reads of a photo did not wait for the slow storage: each must sleep {wait_s:g} s, in the "
        "thread that reads"
    )
    NOT_READ = (
        "only {slow} of {photos} photos were ever read from the slow storage: the others come from data made before "
        "this run, or kept outside the config's cache_dir"
    )
    FLAT = (
        "{candidate:.0%} of the pictures that enter the model are of one colour, in the original {original:.0%}: each "
        "must show its photo"
    )


def check_photos(original: Ledger, candidate: Ledger, wasted_time_s: float | None) -> Iterator[Reason]:
    """Check how photos are read, and that they show something, in a part that has some on slow storage."""
    if wasted_time_s:
        yield from check_reads(original, candidate, wasted_time_s)
        yield from check_flat(original, candidate)


def check_flat(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that no more pictures are of one colour than in the original."""
    ours, theirs = map(_share_flat, (original, candidate))
    if theirs > 2 * ours + MAX_FLAT:
        yield PhotoReason.FLAT(candidate=theirs, original=ours)


def _share_flat(ledger: Ledger) -> float:
    passes = [values_of(each.pictures) for each in ledger.forwards]
    pictures = [row.reshape(-1, SAMPLES) for rows in passes for row in rows]
    flat = [bool((each.max(axis=1) == each.min(axis=1)).all()) for each in pictures]
    return sum(flat) / max(len(flat), 1)


def check_reads(original: Ledger, candidate: Ledger, wasted_time_s: float) -> Iterator[Reason]:
    """Check that each photo was read at least once, and never faster than its storage allows."""
    slow, reads = slow_reads(candidate, wasted_time_s), len(candidate.reads)
    items, photos = targets_in(epochs(original)[0]).total(), len({read.photo for read in slow})
    known = set(slow)
    quick = [read for read in candidate.reads if read not in known]
    if quick and all(read.waited_otherwise for read in quick):
        yield PhotoReason.WAIT_UNSEEN(quick=len(quick), reads=reads)
    elif quick:
        yield PhotoReason.NO_WAIT(quick=len(quick), reads=reads, wait_s=wasted_time_s)
    elif photos < items:
        yield PhotoReason.NOT_READ(slow=photos, photos=items)


def slow_reads(ledger: Ledger, wasted_time_s: float) -> list[PhotoRead]:
    """Return the reads whose thread slept long enough; it may sleep once for a whole batch."""
    most_s = ledger.largest_batch.shape[0] * 1.1 * wasted_time_s
    saved_s: dict[tuple[int, int], float] = {}
    slow = []
    for read in ledger.reads:
        saved = min(saved_s.get(read.source, 0.0) + read.slept_s, most_s)
        if saved >= 0.99 * wasted_time_s:  # a sleep is never shorter than asked for
            saved = max(0.0, saved - wasted_time_s)
            slow.append(read)
        saved_s[read.source] = saved
    return slow
