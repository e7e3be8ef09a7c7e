"""Judges which line is named as the hottest, by the participant's line profile or py-spy recording."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from linecache import getline
from pathlib import Path

from workshop.course.answers.answer_check import MIN_OF_HOTTEST, AnswerCheck, typed, with_note
from workshop.judge.verdict import Outcome, Verdict
from workshop.profiles import line_profile, sampled_lines
from workshop.profiles.line_profile import Function
from workshop.profiles.stacks import Recording
from workshop.recording.py_spy import FOLDER


def judge_profiled(check: AnswerCheck) -> Verdict:
    """Ask for the line in which the part's function spends its time."""
    script, name = check.script, check.question.profiled
    check.say(f"reading the line profile of {script.name}")
    named = check.recording if check.recording and check.recording.is_file() else None
    path = named or newest_profile(script)
    of_all = f"workshop record lines -- {check.command}"
    run_again = of_all if check.question.recorded else f"kernprof -lv {check.command}"
    if path is None:
        missing = f"there is no {script.name}.lprof here; if it has another name, say --recording FILE"
        return check.not_yet(missing, run_again)
    profile = line_profile.read(path)
    function = profile.find(script, name)
    if function is None:
        others = {each.file.resolve() for each in profile.functions} - {script.resolve()}
        of = f"; it was taken of {min(others)}" if others else ""
        name_it = "" if named else "; name another profile by --recording FILE"
        return check.not_yet(f"{path.name} does not cover {name} of {script}{of}{name_it}", of_all)
    main = profile.find(script, "main")
    if stale := line_profile.why_stale(profile, function, script, ran_s=main.seconds if main else 0.0):
        return check.not_yet(f"the profile is stale: {stale}", run_again)
    if function.hottest is None:
        never = f"{name} has 0 hits in {path.name}: either it never ran, or DataLoader workers ran it"
        return check.not_yet(never, of_all)
    return _judge_line(check, function, f"did not run in {name}", f"workshop lines {typed(path)}")


def newest_profile(script: Path) -> Path | None:
    """Return the newest line profile of a script; kernprof writes it to the folder that it is started in."""
    beside = script.with_name(f"{script.name}.lprof")
    by_variable = Path.cwd() / "profile_output.lprof"  # of LINE_PROFILE=1
    recorded = [path for folder in (script.parent, Path.cwd()) for path in folder.glob(f"{script.name}*.lprof")]
    found = {path.absolute(): path for path in [*recorded, by_variable] if path.is_file()}.values()
    for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
        if any(line_profile.same_file(function.file, script) for function in line_profile.read(path).functions):
            return path
    return beside if beside.is_file() else None


def judge_recorded(check: AnswerCheck) -> Verdict:
    """Ask for the line of the script that was seen most often, and look into its newest recording."""
    recorder, script = check.question.recorded, check.script
    record = f"workshop record {recorder} -- python {check.command}"
    found = next(_recordings(check), None)
    if found is None:
        where = check.recording or f"{FOLDER.rstrip('/')} here; if it is elsewhere, say --recording FOLDER"
        return check.not_yet(f"there is no recording of {script.name} in {where}", record)
    path, recording = found
    if stale := sampled_lines.why_stale(path, recording, script):
        return check.not_yet(f"the recording is stale: {stale}", record)
    if "--idle" in recorder and not sampled_lines.shows_waiting(recording, script):
        return check.not_yet(f"hardly anything waits in {path.name}: it was recorded without --idle", record)
    verdict = _judge_recorded_line(check, path, recording, script)
    if verdict.outcome is Outcome.DONE or script.read_bytes() == check.part.untouched.read_bytes():
        return verdict
    changed = f"{script.name} is not the original that this part begins with: `workshop reset`, and record again"
    return replace(verdict, reasons=(*verdict.reasons, changed))


def judge_untouched(check: AnswerCheck) -> Verdict:
    """Ask for the line of the untouched script that was seen most often, whatever the script is now."""
    part, script, untouched = check.part, check.script, check.part.untouched
    changed = script.read_bytes() != untouched.read_bytes()
    for path, recording in _recordings(check):
        if changed and path.stat().st_mtime > script.stat().st_mtime:
            continue  # it may well be of the script as it is now, with no line moved
        if not sampled_lines.why_of_another_script(path, recording, untouched):
            return _judge_recorded_line(check, path, recording, untouched)
    missing = f"there is no recording of {script.name} as it first came"
    record = f"workshop reset {part.name}\nworkshop record {check.question.recorded} -- python {check.command}"
    return check.not_yet(missing, record)


def _recordings(check: AnswerCheck) -> Iterator[tuple[Path, Recording]]:
    """Yield the recordings of the script where they were said to be, or else in the usual folders; the newest first."""
    check.say(f"reading the recordings of {check.script.name}")
    folders = [check.recording] if check.recording else [Path.cwd() / FOLDER, check.script.parent / FOLDER]
    return sampled_lines.recordings_of(folders, check.script)


def _judge_recorded_line(check: AnswerCheck, path: Path, recording: Recording, script: Path) -> Verdict:
    function = sampled_lines.as_function(recording, script)
    verdict = _judge_line(
        check,
        function,
        f"is in no sample of {path.name}",  # a sampling profiler may miss a line that ran
        f"workshop py-spy-report --user-code --file {typed(path)}",
        lambda number: sampled_lines.samples_below(recording, script, number),
    )
    return with_note(verdict, path)


def _judge_line(
    check: AnswerCheck,
    function: Function,
    absent: str,
    look: str,
    samples_below: Callable[[int], int] | None = None,
) -> Verdict:
    """Ask for the number of the hottest line of a function, and judge it.

    Args:
        check: the question.
        function: the function, or what was sampled of a script.
        absent: what is said of a line of a different function.
        look: the command that shows the lines.
        samples_below: for what was sampled, returns in how many samples a line waits for others that it calls. The
            verdict then tells samples, as the report does, whose shares are of the whole recording.
    """
    number, hottest = int(check.answer()), function.hottest
    assert hottest
    here = function.seconds_in(number)
    if samples_below and (below := samples_below(number)) > here:
        waits = f"in {below} samples, line {number} waits for a line that it calls"
        return check.wrong(f"{waits}: answer with the innermost line of {function.file.name}", look)
    if number not in {line.number for line in function.lines}:
        return check.wrong(f"line {number} {absent}", look)
    source = getline(str(function.file), number).strip()
    if samples_below:
        found = f"has {here:.0f} of the {function.seconds:.0f} samples in functions of {function.name}"
    else:
        found = f"takes {function.share(number):.1%} of the time in {function.name}"
    says = f"line {number} {found}: {source}"
    if function.share(number) >= MIN_OF_HOTTEST * function.share(hottest.number):
        return check.verdict(Outcome.DONE, says)
    return check.wrong(f"{says}; another line takes more", look)
