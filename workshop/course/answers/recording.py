"""Judges an answer by the participant's recording by py-spy."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from workshop.course.answers.question import Question
from workshop.judge.verdict import Verdict
from workshop.profiles import recorded_lines
from workshop.profiles.stacks import Recording
from workshop.recording.py_spy import FOLDER

NOT_SEEN = "was not seen in"
"""What is said of a line that a sampling profiler has not seen: it may have run for all that."""


def judge(question: Question) -> Verdict:
    """Ask for the line of the script that was seen most often, and look into its newest recording."""
    part, script = question.part, question.script
    record = f"workshop record {part.recorded} -- python {script.name} with its config"
    found = next(_recordings(script), None)
    if found is None:
        return question.not_yet(f"there is no recording of {script.name} here", record)
    path, recording = found
    if stale := recorded_lines.why_stale(path, recording, script):
        return question.not_yet(f"the recording is stale: {stale}", record)
    if "--idle" in part.recorded and not recorded_lines.shows_waiting(recording, script):
        return question.not_yet(f"hardly anything waits in {path.name}: it was recorded without --idle", record)
    function = recorded_lines.as_function(recording, script)
    return question.judge_line(replace(function, name=f"{script.name} ({path.name})"), NOT_SEEN)


def judge_of_untouched(question: Question) -> Verdict:
    """Ask the same of the script as it first came, whatever has become of it since."""
    part, script, untouched = question.part, question.script, question.part.untouched
    changed = script.read_bytes() != untouched.read_bytes()
    for path, recording in _recordings(script):
        if changed and path.stat().st_mtime > script.stat().st_mtime:
            continue  # it may well be of the script as it is now, with no line moved
        if not recorded_lines.why_of_another_script(path, recording, untouched):
            function = recorded_lines.as_function(recording, untouched)
            return question.judge_line(replace(function, name=f"{untouched.name} ({path.name})"), NOT_SEEN)
    missing = f"there is no recording of {script.name} as it first came"
    record = f"workshop reset {part.name}, and workshop record {part.recorded} -- python {script.name}"
    return question.not_yet(missing, record)


def _recordings(script: Path) -> Iterator[tuple[Path, Recording]]:
    """The recordings of a script in the usual folder, here or beside the script; the newest first."""
    return recorded_lines.recordings_of([Path.cwd() / FOLDER, script.parent / FOLDER], script)
