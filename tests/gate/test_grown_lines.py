"""Which lines are named of all that take longer, on made-up counts."""

from pathlib import Path

from workshop.gate.grown_lines import GrownLine, lines_that_grew
from workshop.profiles import line_change
from workshop.profiles.line_profile import Function, Line, LineProfile, Recorded

STEPS = 100

SOURCE = """\
import helper

def load(index):
    time.sleep(0.005)
    return index

def prepare(batch):
    return sort(batch)

def sort(batch):
    return sorted(batch)

def main():
    for batch in loader:
        prepare(batch)
        optimizer.step()
"""


def profile(source: str, seconds: dict[str, float], hits: int = STEPS) -> LineProfile:
    """A profile in which each line that contains a text took so many seconds; imports and calls ran once."""
    lines = source.splitlines()
    heads = [number for number, line in enumerate(lines, 1) if line.startswith("def ")]
    functions = []
    for number in [1, *heads]:
        end = min([each for each in heads if each > number], default=len(lines) + 1)
        inside = [
            Line(each, 1 if number == 1 else hits, took)
            for each in range(number, end)
            for text, took in seconds.items()
            if text in lines[each - 1] and not lines[each - 1].startswith("def ")
        ]
        name = "<module>" if number == 1 else lines[number - 1].split("def ")[1].split("(")[0]
        functions.append(Function(Path("/made/train.py"), name, number, tuple(inside)))
    recorded = Recorded(("train.py",), {"/made/train.py": source}, {}, 1.0, (3, 11))
    return LineProfile(Path("made.lprof"), tuple(functions), recorded)


BEFORE = {
    "import helper": 0.1,
    "time.sleep(0.005)": 0.5,
    "return index": 0.001,
    "return sort(batch)": 0.2,
    "return sorted(batch)": 0.2,
    "for batch in loader": 0.51,
    "        prepare(batch)": 0.2,
    "optimizer.step()": 0.3,
}


def named(source: str, growth_ms: float, **after: float) -> list[GrownLine]:
    """The lines that are named where some lines took other times."""
    times = BEFORE | after
    change = line_change.between([profile(SOURCE, BEFORE)], [profile(source, times)])
    return lines_that_grew(change, STEPS, growth_ms)


def test_an_added_line_is_named_and_not_the_loop_that_waits_for_it() -> None:
    source = SOURCE.replace("    return index", "    log(index)\n    return index")
    [line] = named(source, 1.0, **{"log(index)": 0.1, "for batch in loader": 0.61})
    assert (line.line, line.function, line.kind, line.text) == (5, "load", "added", "log(index)")
    assert (line.before_ms, line.after_ms, line.hits_before, line.hits_after) == (0.0, 1.0, 0.0, 1.0)


def test_the_line_in_the_function_that_is_called_is_named_and_not_its_callers() -> None:
    source = SOURCE.replace("return sorted(batch)", "return sorted(sorted(batch))")
    times = {"return sorted(sorted(batch))": 0.4, "return sort(batch)": 0.4, "        prepare(batch)": 0.4}
    [line] = named(source, 2.0, **times)
    assert (line.line, line.function, line.kind) == (11, "sort", "changed")


def test_a_line_that_calls_an_untouched_function_once_more_is_named_and_not_the_function() -> None:
    source = SOURCE.replace("    return index", "    sort(index)\n    return index")
    times = {"    sort(index)": 0.2, "return sorted(batch)": 0.4, "for batch in loader": 0.71}
    [line] = named(source, 2.0, **times)
    assert (line.line, line.function, line.kind) == (5, "load", "added")


def test_where_nothing_was_edited_the_line_that_grew_is_named_and_not_what_ran_once() -> None:
    [line] = named(SOURCE, 1.0, **{"optimizer.step()": 0.4, "import helper": 9.0})
    assert (line.line, line.kind) == (16, "same")


def test_an_edited_line_that_grew_little_does_not_hide_what_grew() -> None:
    source = SOURCE.replace("    return index", "    log(index)\n    return index")
    lines = named(source, 5.0, **{"log(index)": 0.01, "optimizer.step()": 0.8})
    assert [each.line for each in lines] == [17]


def test_nothing_is_named_where_no_line_grew() -> None:
    assert named(SOURCE, 1.0, **{"optimizer.step()": 0.305}) == []
