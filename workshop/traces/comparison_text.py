"""Says in words what changed between two runs, by their traces."""

import math
from collections.abc import Callable

from workshop.probe.phases import Phase
from workshop.terminal import MAX_NAMED, cut, some_of
from workshop.traces.comparison import NO_OPERATOR, RunDifference, TimeChange

NO_NOISE_KNOWN = "Whether that is more than noise cannot be told from one {}: record several steps of both runs."

OF_PHASES: dict[str, str] = {
    Phase.DATA_WAIT: "waiting for data",
    Phase.COPY: "copying to the device",
    Phase.FORWARD: "in the forward pass",
    Phase.BACKWARD: "in the backward pass",
    Phase.OPTIMIZER: "in the optimizer",
    Phase.OTHER: "in other code",
}


def sentences(difference: RunDifference) -> list[str]:
    """Return what changed; the step comes first, then what it is made of, and at last what to know about the two."""
    begin = "Of that" if not difference.step.is_noise else "Inside it"
    thread = "on the thread that trains"
    return [
        _step(difference),
        *_parts(difference, begin, "phases", OF_PHASES.__getitem__),
        *_parts(difference, f"By operator, {thread}", "operators", _of_operator),
        *_come_and_gone(difference, f"operators {thread}", "operators"),
        *_parts(difference, "By kernel, on the device", "kernels", lambda name: f"in {short(name)}", sums_up=False),
        *_come_and_gone(difference, "kernels", "kernels"),
        *_about(difference),
    ]


def short(name: str) -> str:
    """Return a name that fits a sentence: those of kernels go on for pages."""
    return cut(name, 60)


def milliseconds(ns: float, difference_ns: float = 0) -> str:
    """Return a time in ms, without its sign and unit, to three digits, and never less than all before the point.

    If it is given together with another time, it has so many digits that their difference has two; but never more
    than six behind the point, which are exact to the ns.
    """
    decimals = max(_decimals(ns, 3), _decimals(difference_ns, 2), 0)
    return f"{abs(ns) / 1e6:,.{min(decimals, 6)}f}"


def _decimals(ns: float, digits: int) -> int:
    """Return the number of digits behind the point of a time in ms that has some digits in all."""
    return digits - 1 - math.floor(math.log10(abs(ns) / 1e6)) if ns else 0


def _step(difference: RunDifference) -> str:
    """Return how long a step takes, and how sure that is; or how small a difference would have been seen."""
    step = difference.step
    subject = "a step" if difference.by_step else "the whole recording"
    before, after = (milliseconds(ns, step.difference_ns) for ns in (step.before_ns, step.after_ns))
    if step.is_noise:
        says = f"no difference beyond noise: {subject} takes {before} ms before and {after} ms after"
    else:
        says = f"{subject} takes {after} ms instead of {before} ms{_ratio(step)}"
    says = says[0].upper() + says[1:]
    if math.isnan(step.margin_ns):
        what = "step" if difference.by_step else "recording"
        return f"{says}. {NO_NOISE_KNOWN.format(what)}" if step.difference_ns else f"{says}."
    steps = f"{_counted(len(difference.before.duration), 'step')} against {len(difference.after.duration)}"
    low, high = step.difference_ns - step.margin_ns, step.difference_ns + step.margin_ns
    if not step.is_noise:
        least, most = map(milliseconds, sorted((abs(low), abs(high))))
        return f"{says} ({_more_or_less(step.difference_ns)}, 95 % interval {least} to {most}, {steps})."
    low_ms, high_ms = (f"{'-' * (ns < 0)}{milliseconds(ns)}" for ns in (low, high))
    seen = f"{milliseconds(difference.seen_ns)} ms ({100 * difference.seen_ns / (step.before_ns or math.inf):.1f} %)"
    interval = f"95 % interval of the difference {low_ms} to {high_ms} ms"
    return f"{says} ({interval}, {steps}). A difference of {seen} would have been seen four times in five."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _ratio(change: TimeChange) -> str:
    if not change.before_ns or not change.after_ns:
        return ""
    ratio = change.before_ns / change.after_ns
    times = max(ratio, 1 / ratio)
    if times < 1.1:
        share = 100 * abs(change.difference_ns) / change.before_ns
        return f", {share:.2g} % {'less' if ratio > 1 else 'more'}"
    digits = f"{times:.2f}" if times < 100 else f"{times:,.0f}"
    return f", a {'speedup' if ratio > 1 else 'slowdown'} of {digits}x"


def _more_or_less(ns: float) -> str:
    return f"{milliseconds(ns)} ms {'less' if ns < 0 else 'more'}"


def _worth_a_word(difference: RunDifference, table: str) -> list[TimeChange]:
    least = difference.step.worth_a_word_ns
    return [each for each in difference.tables[table] if not each.is_noise and abs(each.difference_ns) >= least]


def _parts(
    difference: RunDifference, begin: str, table: str, say: Callable[[str], str], sums_up: bool = True
) -> list[str]:
    """Return a sentence about the parts that changed by more than noise, and the sum of what it does not name."""
    told = _worth_a_word(difference, table)[:MAX_NAMED]
    if not told:
        return []
    parts = [f"{_more_or_less(change.difference_ns)} {say(change.name)}" for change in told]
    rest = difference.step.difference_ns - sum(change.difference_ns for change in told)
    if sums_up and abs(rest) >= difference.step.worth_a_word_ns:
        parts.append(f"{_more_or_less(rest)} in all the rest")
    return [f"{begin}: {', '.join(parts)}."]


def _of_operator(name: str) -> str:
    if name.startswith(NO_OPERATOR):
        return f"without an operator, {OF_PHASES[name.removeprefix(NO_OPERATOR)]}"
    return f"in {short(name)} itself"


def _come_and_gone(difference: RunDifference, what: str, table: str) -> list[str]:
    found = []
    for presence in ("new", "gone"):
        names = [
            f"{short(each.name)} ({milliseconds(each.difference_ns)} ms)"
            for each in _worth_a_word(difference, table)
            if each.presence == presence and not each.name.startswith(NO_OPERATOR)
        ]
        found += [f"{presence.capitalize()} {what}: {some_of(names)}."] if names else []
    return found


def _about(difference: RunDifference) -> list[str]:
    """Return what to know about two runs that are not alike."""
    before, after = difference.before, difference.after
    found = []
    if not difference.by_step:
        found.append("At least one of the two has no steps of the profiler, so the whole recordings are compared.")
    if before.ranks != after.ranks:
        ranks = f"{_counted(before.ranks, 'rank')} before, {after.ranks} after"
        found.append(f"There are {ranks}; all times are those of a mean rank.")
    if before.on_device != after.on_device:
        used = "after" if after.on_device else "before"
        found.append(f"Only {used}, something ran on a device.")
    one, other = (
        {name for name in each.tables["operators"] if not name.startswith(NO_OPERATOR)} for each in (before, after)
    )
    if one and other and not one & other:
        found.append("The two have no operator in common, as different programs do.")
    return found
