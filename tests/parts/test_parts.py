"""Every part has what a part must have, and a new one needs nothing else to be known."""

import re
import shutil
from pathlib import Path

import pytest

from workshop.cli.check import _print_end
from workshop.course import checks, glossary
from workshop.course.answers import judge_of
from workshop.course.progress import next_part
from workshop.course.state import State
from workshop.judge.verdict import Outcome
from workshop.parts import FOLDER, Part, all_parts, find_part, taught_in
from workshop.parts.case import case_names


def test_the_parts_in_their_order() -> None:
    assert [int(part.number) for part in all_parts()][:10] == list(range(1, 11))


def test_which_parts_teach_what() -> None:
    assert [taught_in(each) for each in ("slow-item", "data wait", "float64")] == ["part 5", "parts 3 to 5", ""]


@pytest.mark.parametrize("part", all_parts(), ids=lambda part: part.name)
def test_a_part_has_all_it_needs(part: Part) -> None:
    assert len(part.hints) == 3
    assert all(len(hint) > 40 for hint in part.hints)
    assert part.question or part.change
    assert not part.question or callable(judge_of(part.question.answered_by))
    assert part.original_script.is_file()
    assert part.untouched.name in ("part1.py", part.script)
    lesson = part.lesson.read_text(encoding="utf-8")
    assert len(re.findall(r"\.\s|\.$", part.learned)) == 2 or case_names(part), (
        "two sentences; a script of part 11 has its own"
    )
    assert part.now.endswith(".") or case_names(part), "what to do with the script once the part is done"
    assert not (part.question and part.change) or part.question.edit
    assert lesson.startswith(f"# Part {part.number}: {part.title}\n\n*Begin with ")
    assert f"workshop check {part.name}" in lesson
    assert re.findall(r"^## (.+)$", lesson, re.M)[-1] == "On your own script"
    assert "```shell\nworkshop " in lesson.partition("## On your own script")[2]
    for target in re.findall(r"\]\(([^)#]+)\)", lesson):
        assert target.startswith("https://") or (part.folder / target).exists(), target


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("part1", "part 3 is where you edit train.py."),
        ("part2", "train.py stays as it is: part 3 is where you change the line that makes the DataLoader."),
        ("part4", "train.py stays as it is: in part 5 you add a cache"),
        ("part7", "There is nothing to edit for this: part 3 hides the waiting of this line"),
        ("part8", "There is nothing to edit for this: parts 3 and 5 shorten the data wait"),
        ("part9", "Part 10 begins with your train.py of part 5"),
        ("part10", "Part 11 gives you a different script"),
    ],
)
def test_the_end_of_a_part_says_what_to_do_with_the_script(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part, state = find_part(name), State(tmp_path)
    _print_end(part, next_part(state, after=part), state)
    learned, now, last = capsys.readouterr().out.strip().split("\n\n")[:3]
    assert learned.startswith("What you know now: ")
    assert says in now
    assert last.startswith(f"{name} is finished. Next is ")


@pytest.mark.parametrize("part", all_parts(), ids=lambda part: part.name)
def test_a_lesson_links_the_words_of_the_glossary(part: Part) -> None:
    text = part.lesson.read_text(encoding="utf-8")
    defined = re.findall(r"^\[(.+)\]: \.\./\.\./\.\./docs/glossary\.md#(\S+)$", text, re.M)
    assert len(defined) == text.count("docs/glossary.md") > 1
    lesson = " ".join(text.split()).lower()
    for word, anchor in defined:
        assert anchor == glossary.anchor(word) in glossary.entries()
        links = re.findall(rf"\[{re.escape(word)}\](?!: \.\./)", lesson, re.I)
        assert len(links) == 1, f"{word}: its first use alone is a link"


def test_a_new_part_is_a_folder_and_a_solution(project: Path, data: Path, tmp_path: Path) -> None:
    parts, solutions = tmp_path / "workshop" / "parts", tmp_path / "solutions"
    shutil.copytree(FOLDER, parts)
    shutil.copytree(project / "solutions", solutions)
    shutil.copytree(parts / "part6", parts / "part99")
    (parts / "part99" / "copies_check.py").write_text(
        """
from workshop.judge.reasons import ReasonKind
from workshop.judge.verdict import Outcome, Verdict

class WorkerReason(ReasonKind):
    FOUND = "workers: {0}"

def check(bench):
    workers = "num_workers" in bench.contest.candidate.read_text()
    return Verdict(bench.subject, Outcome.DONE if workers else Outcome.NOT_YET, (WorkerReason.FOUND(workers),))
"""
    )
    shutil.copy(project / "solutions" / "part3.py", solutions / "part99.py")

    part = find_part("99", parts)
    state = State(tmp_path)
    solved = checks.check(part, part.solution, data, state=state)
    assert (solved.subject, solved.outcome, *map(str, solved.reasons)) == ("part99", Outcome.DONE, "workers: True")
    slow = tmp_path / "slow.py"
    slow.write_text(f"{part.untouched.read_text()}\nSLOW = True\n")
    verdict = checks.check(part, slow, data, state=state)
    assert (verdict.outcome, *map(str, verdict.reasons)) == (Outcome.NOT_YET, "workers: False")
    assert state.get("parts", "part99", "done") is True
