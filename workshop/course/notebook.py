"""Pictures for the notebook, drawn from the results of the commands.

from workshop.course import notebook

notebook.lines()            # the line profile of train.py, the hottest line marked
notebook.phases("part3")    # a step's phases before and after, of the last check of that part
notebook.speed_ups()        # how far each part has come
"""

import html
from dataclasses import dataclass
from pathlib import Path

from workshop.course import given_cases
from workshop.course.answers.hot_line import newest_profile
from workshop.course.progress import ended
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.pages import line_page
from workshop.parts import all_parts, find_part
from workshop.profiles import line_profile, line_tables

BEFORE, AFTER = "#d95f5f", "#3b8686"


@dataclass(frozen=True)
class Picture:
    """Something that a notebook draws."""

    markup: str

    def _repr_html_(self) -> str:
        return self.markup


def lines(script: Path | str = "train.py", function: str = "main") -> Picture:
    """Draw a function's source with its line profile, the newest one of the script.

    If no line of it ran, it says why.

    Raises:
        WorkshopError: there is no profile, or none of that function.
    """
    script = Path(script)
    path = newest_profile(script) or Path(f"{script.name}.lprof")
    profile = line_profile.read(path)
    found = profile.find(script, function)
    if found is None:
        hint = f"count the lines of all functions: !workshop record lines -- {script} configs/example_config.py"
        raise WorkshopError(f"{path.name} does not cover {function} of {script}; {hint}")
    if found.hottest is None:
        why = "it never ran, or DataLoader workers ran it, which !workshop record lines counts as well"
        return _sentence(f"{function} has 0 hits in {path.name}: {why}")
    return Picture(line_page.fragment(line_tables.tables(profile, name=found.name)[line_tables.TOGETHER][0]))


def phases(part: str) -> Picture:
    """Draw where an epoch's seconds went, in the untouched script and in yours, when a part was last measured.

    If it never was, it says so.
    """
    name = find_part(part).name
    speed = State(Path.cwd()).get("parts", name, "speed")
    if not speed:
        return _sentence(f"no check of {name} has measured its speed yet: !workshop check {name}")
    before, after = speed["phases_before"], speed["phases_after"]
    longest = max(*before.values(), *after.values(), 1e-9)
    rows = []
    for phase in before:
        rows.append(_row([phase, f"{before[phase]:.2f} s"], before[phase] / longest, BEFORE, speed["original"]))
        mine = speed.get("candidate", "yours")
        rows.append(_row(["", f"{after[phase]:.2f} s"], after[phase] / longest, AFTER, mine))
    return _html_table(["phase", "an epoch", "", f"speedup {speed['ratio']:.2f}x"], rows)


def speed_ups() -> Picture:
    """Draw the best speedup of your script over the original, part by part."""
    known = State(Path.cwd()).get("parts") or {}
    best = [(part, known.get(part.name, {})) for part in all_parts()]
    longest = max(1.0, *(each.get("best_ratio", 0.0) for _, each in best))
    rows = []
    for part, each in best:
        ratio = each.get("best_ratio", 0.0)
        says = f"{part.title}, {'done' if each.get('done') else ended(each) or 'open'}"
        rows.append(_row([part.name, f"{ratio:.1f}x" if ratio else ""], ratio / longest, AFTER, says))
    return _html_table(["part", "", "", ""], rows)


def script(part: str) -> str:
    """Return the name of the script that a part is about: of part 11, of the one that you were given."""
    return given_cases.given(find_part(part), State(Path.cwd())).script


def right_answer(part: str) -> str:
    """Return the right answer for the scripts as they are here, for those who only want to be shown around."""
    from workshop.course.selftest import answers  # it brings torch along

    found = given_cases.given(find_part(part), State(Path.cwd()))
    return answers(found, Path(found.script))[0]


def _sentence(text: str) -> Picture:
    return Picture(f"<p>{html.escape(text)}</p>")


def _row(cells: list[str], share: float, colour: str, text: str) -> str:
    numbers = "".join(f'<td style="text-align:right;padding:0 8px">{cell}</td>' for cell in cells)
    bar = f'<div style="width:{share * 180:.0f}px;height:12px;background:{colour}"></div>'
    code = f'<td style="text-align:left;font-family:monospace;white-space:pre">{text}</td>'
    return f'<tr>{numbers}<td style="width:190px">{bar}</td>{code}</tr>'


def _html_table(heads: list[str], rows: list[str]) -> Picture:
    head = "".join(f'<th style="text-align:left;padding:0 8px">{html.escape(each)}</th>' for each in heads)
    return Picture(f'<table style="border-collapse:collapse"><tr>{head}</tr>{"".join(rows)}</table>')
