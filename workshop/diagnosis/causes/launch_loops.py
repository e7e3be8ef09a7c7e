"""Loops that ask a GPU for much in small pieces: what is found of several lines of one is one finding."""

from collections import defaultdict
from dataclasses import replace
from itertools import takewhile

from workshop.diagnosis.findings import Finding, gain_of, limited
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.timeline import Timeline
from workshop.diagnosis.user_lines import Place
from workshop.diagnosis.watched_lines import loops_around
from workshop.probe.phases import Phase

Loop = tuple[str, int, int]
"""The path of a file, and the numbers of the first and the last line of a loop."""

LAUNCHES = " The loop in line {line} launches {launches:.0f} kernels a step."


def one_for_each_loop(measurement: Measurement, found: list[Finding]) -> list[Finding]:
    """Put together what is estimated of the lines of a loop that launches more than one kernel in a traced step.

    The line with most time stays, with the others beside it.
    """
    if measurement.circumstances.device != "cuda":
        return found
    timeline, of_loop = Timeline(measurement), defaultdict[tuple[Loop, str], list[Finding]](list)
    alone = list[Finding]()
    for each in found:
        loop = None if each.measured or not each.line else _loop_of(timeline, (each.file, each.line))
        if loop and _launches(measurement, loop) > 1:
            of_loop[loop, each.cause].append(each)
        else:
            alone.append(each)
    return [*alone, *(_together(loop, lines, _launches(measurement, loop)) for (loop, _), lines in of_loop.items())]


def _loop_of(timeline: Timeline, place: Place) -> Loop | None:
    """Return the outermost loop around a line that is not the training's."""
    path, line = place
    around = [(each.lineno, each.end_lineno or 0) for each in loops_around(path, line)]
    loops = [*takewhile(lambda lines: not timeline.trains_within(path, *lines), around)]
    return (path, *loops[-1]) if loops else None


def _launches(measurement: Measurement, loop: Loop) -> float:
    """Return how much the lines of a loop launch in a step, without backward passes."""
    path, first, last = loop
    return sum(
        each.launches
        for each in measurement.traced
        if each.place.file == path and first <= each.place.line <= last and each.phase != Phase.BACKWARD
    )


def _together(loop: Loop, lines: list[Finding], launches: float) -> Finding:
    main, *others = sorted(lines, key=lambda each: each.share, reverse=True)
    beside = dict(main.beside)
    for each in others:
        beside |= each.beside | {each.line or 0: each.share}
    saved_ms = min(sum(each.saved_ms for each in lines), main.step_ms)
    gain = 1.0 + main.margin * (gain_of(main.step_ms, main.step_ms - saved_ms) - 1.0)
    words = main.words + LAUNCHES.format(line=loop[1], launches=launches)
    phase = main.phase if {each.phase for each in lines} == {main.phase} else ""
    beside.pop(main.line or 0, None)
    merged = replace(main, words=words, beside=beside, saved_ms=saved_ms, gain=gain, phase=phase)
    return limited(merged, max(main.max_gain, *(each.max_gain for each in lines)))
