"""What torch.compile makes again and again, and where it leaves what it has made, as it notes that by itself."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from workshop.probe.cause import Moment, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.internals import compilations
from workshop.probe.messages import AsItIs, SetStage
from workshop.probe.observations import Noticed
from workshop.probe.trials.watcher import ENOUGH, Watcher, watches_for
from workshop.probe.user_code import is_user_code

RECOMPILATIONS = TriedCause(
    "recompilations", "torch.compile {about}.", phases=(), moment=Moment.THROUGHOUT, of_compiled=True
)


@watches_for(RECOMPILATIONS)
class Recompilations(Watcher):
    """Looks at what was compiled once the script was measured as it is, before anything else may be compiled."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._is_measured, self._before = False, 0

    def on_stage(self, stage: SetStage) -> None:
        """Begin to count what is compiled meanwhile, or note what was."""
        made, breaks = compilations()
        if isinstance(stage, AsItIs):
            self._is_measured, self._before, self.steps = True, _count(made), 0
        elif self._is_measured:
            self._is_measured = False
            meanwhile = _count(made) - self._before
            in_steps = f" ({meanwhile} times in {self.steps} measured steps)" if meanwhile else ""
            if says := [*_made_again(made, in_steps), *_left(breaks)]:
                self.events.write(Noticed, name=RECOMPILATIONS.name, about="; it ".join(says))


def _count(made: Iterable[Any]) -> int:
    return sum(not each.fail_type for each in made)


def _made_again(made: list[Any], in_steps: str) -> list[str]:
    """Tell of the function that was compiled most often, if that is more than usual."""
    again: dict[str, list[Any]] = defaultdict(list)  # by the number of the function; a file that is not known is none
    for each in made:
        if is_user_code(each.co_filename or "<none>") and getattr(each, "recompile_reason", None):
            again[_number(each)].append(each)
    number = max(again, key=lambda each: len(again[each]), default="")
    if not number or len(again[number]) < ENOUGH:
        return []
    last = again[number][-1]
    seconds = sum(each.entire_frame_compile_time_s or 0.0 for each in again[number])
    gave_up = any(each.fail_type for each in made if _number(each) == number)
    reason, _, stack = last.recompile_reason.partition(": ")[2].partition("\n")
    at = re.findall(r"line (\d+)", stack) or [last.co_firstlineno]
    return [
        f"has made {last.co_name} (line {last.co_firstlineno}) again {len(again[number])} times, in {seconds:.1f} s"
        f"{in_steps}{', and gave up: it runs without' * gave_up}; the last time, what changed was "
        f"{reason.partition('#')[0].strip()} (line {at[-1]})"
    ]


def _number(compilation: Any) -> str:
    """The number of the function, which comes before that of the time."""
    return (compilation.compile_id or "").partition("/")[0]


def _left(breaks: list[Any]) -> list[str]:
    """Tell of the lines for which compiled code is left, and why."""
    reasons: dict[int, str] = {}
    for each in breaks:
        frames = [frame for frame in each.user_stack or () if is_user_code(frame.filename)]
        if frames and each.graph_break:
            reasons[frames[-1].lineno] = each.reason.partition("\n")[0]
    named = ", ".join(f"line {line} ({reason})" for line, reason in reasons.items())
    return [f"leaves what it has made for {named}"] * bool(reasons)
