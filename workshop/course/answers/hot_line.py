"""Judges which line is named as the hottest, by what the participant has recorded, or as the fault, which is known."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from linecache import getline
from pathlib import Path

from workshop.course.answers import MIN_OF_HOTTEST, AnswerCheck, typed, with_note
from workshop.errors import WorkshopError
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts.case import Case
from workshop.profiles import line_profile, sampled_lines
from workshop.profiles.line_profile import Function, LineProfile
from workshop.profiles.stacks import Recording
from workshop.recording.py_spy import FOLDER


class LineReason(ReasonKind):
    """What is said of a line that was named, and of the profile or recording that it is looked up in."""

    NO_PROFILE = "there is no {script}.lprof here; if it has another name, say --recording FILE"
    NOT_COVERED = "{profile} does not cover {function} of {script}{of}{name_it}"
    OF_OTHER_FILE = "; it was taken of {file}"
    NAME_ANOTHER = "; name another profile by --recording FILE"
    STALE_PROFILE = "the profile is stale: {why}"
    NEVER_RAN = "{function} has 0 hits in {profile}: either it never ran, or DataLoader workers ran it"
    NO_RECORDING = "there is no recording of {script} in {folder}"
    NO_RECORDING_HERE = "there is no recording of {script} in {folder} here; if it is elsewhere, say --recording FOLDER"
    NO_RECORDING_OF_UNTOUCHED = "there is no recording of {script} as it first came"
    STALE_RECORDING = "the recording is stale: {why}"
    WITHOUT_IDLE = "hardly anything waits in {recording}: it was recorded without --idle"
    SCRIPT_CHANGED = "{script} is not the original that this part begins with: `workshop reset`, and record again"
    WAITS_FOR_LINE = (
        "in {samples} samples, line {line} waits for a line that it calls: answer with the innermost line of {file}"
    )
    NOT_IN_FUNCTION = "line {line} did not run in {function}"
    NOT_SAMPLED = "line {line} is in no sample of {recording}"  # a sampling profiler may miss a line that ran
    SAMPLES = "line {line} has {samples:.0f} of the {of:.0f} samples in functions of {function}: {source}"
    TIME = "line {line} takes {share:.1%} of the time in {function}: {source}"
    ANOTHER_TAKES_MORE = "{0}; another line takes more"


class FaultReason(ReasonKind):
    """What is said of a line and a cause that were named."""

    RIGHT = "line {line} is the one, and the cause is {cause}"
    OTHER_CAUSE = "line {line} is the one, but the cause is not {cause}"
    OTHER_LINE = "{cause} is the cause, but line {line} is not the one"
    OTHER_FAULT = "line {line} is not the one, and the cause is not {cause}"


def judge_profiled(check: AnswerCheck) -> Verdict:
    """Ask for the line in which the part's function spends its time."""
    script, name = check.script, check.question.profiled
    check.say(f"reading the line profile of {script.name}")
    named = check.recording if check.recording and check.recording.is_file() else None
    path = named or newest_profile(script, name)
    of_all = f"workshop record lines -- {check.command}"
    run_again = of_all if check.question.recorded else f"kernprof -lv {check.command}"
    if path is None:
        return check.not_yet(LineReason.NO_PROFILE(script=script.name), run_again)
    profile = line_profile.read(path)
    function = profile.find(script, name)
    if function is None:
        others = {each.file.resolve() for each in profile.functions} - {script.resolve()}
        of = LineReason.OF_OTHER_FILE(file=min(others)) if others else ""
        more = {"of": of, "name_it": "" if named else LineReason.NAME_ANOTHER()}
        return check.not_yet(LineReason.NOT_COVERED(profile=path.name, function=name, script=script, **more), of_all)
    main = profile.find(script, "main")
    if stale := line_profile.why_stale(profile, function, script, ran_s=main.seconds if main else 0.0):
        return check.not_yet(LineReason.STALE_PROFILE(why=stale), run_again)
    if function.hottest is None:
        return check.not_yet(LineReason.NEVER_RAN(function=name, profile=path.name), of_all)
    return _judge_line(check, function, path, f"workshop lines {typed(path)}")


def newest_profile(script: Path, function: str = "") -> Path | None:
    """Return the newest line profile of a script, one with this function if there is one; None without a profile.

    It is in the folder of the script or the present one, where kernprof writes it, under any name.
    """
    newest = None
    for path, profile in _profiles_of(script):
        if profile.find(script, function):
            return path
        newest = newest or path
    beside = script.with_name(f"{script.name}.lprof")
    return newest or (beside if beside.is_file() else None)


def _profiles_of(script: Path) -> Iterator[tuple[Path, LineProfile]]:
    """Yield the line profiles of a script, the newest first; what is no profile counts if it is named after the script.

    Raises:
        WorkshopError: one that is named after the script is no line profile.
    """
    found = {path.absolute() for folder in (script.parent, Path.cwd()) for path in folder.glob("*.lprof")}
    for path in sorted(filter(Path.is_file, found), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            profile = line_profile.read(path)
        except WorkshopError:
            if path.name.startswith(script.name):
                raise
            continue
        if any(line_profile.same_file(function.file, script) for function in profile.functions):
            yield path, profile


def judge_recorded(check: AnswerCheck) -> Verdict:
    """Ask for the line of the script that was seen most often, and look into its newest recording."""
    recorder, script = check.question.recorded, check.script
    record = f"workshop record {recorder} -- python {check.command}"
    found = next(_recordings(check), None)
    if found is None:
        kind = LineReason.NO_RECORDING if check.recording else LineReason.NO_RECORDING_HERE
        return check.not_yet(kind(script=script.name, folder=check.recording or FOLDER.rstrip("/")), record)
    path, recording = found
    if stale := sampled_lines.why_stale(path, recording, script):
        return check.not_yet(LineReason.STALE_RECORDING(why=stale), record)
    if "--idle" in recorder and not sampled_lines.shows_waiting(recording, script):
        return check.not_yet(LineReason.WITHOUT_IDLE(recording=path.name), record)
    verdict = _judge_recorded_line(check, path, recording, script)
    if verdict.outcome is Outcome.DONE or script.read_bytes() == check.part.untouched.read_bytes():
        return verdict
    return replace(verdict, reasons=(*verdict.reasons, LineReason.SCRIPT_CHANGED(script=script.name)))


def judge_untouched(check: AnswerCheck) -> Verdict:
    """Ask for the line of the untouched script that was seen most often, whatever the script is now."""
    part, script, untouched = check.part, check.script, check.part.untouched
    changed = script.read_bytes() != untouched.read_bytes()
    for path, recording in _recordings(check):
        if changed and path.stat().st_mtime > script.stat().st_mtime:
            continue  # it may well be of the script as it is now, with no line moved
        if not sampled_lines.why_of_another_script(path, recording, untouched):
            return _judge_recorded_line(check, path, recording, untouched)
    record = f"workshop record {check.question.recorded} -- python {check.command}"
    missing = LineReason.NO_RECORDING_OF_UNTOUCHED(script=script.name)
    return check.not_yet(missing, *[f"workshop reset {part.name}"] * changed, record)


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
        path,
        f"workshop py-spy-report --user-code --file {typed(path)}",
        lambda number: sampled_lines.samples_below(recording, script, number),
    )
    return with_note(verdict, path)


def _judge_line(
    check: AnswerCheck,
    function: Function,
    path: Path,
    look: str,
    samples_below: Callable[[int], int] | None = None,
) -> Verdict:
    """Ask for the number of the hottest line of a function, and judge it.

    Args:
        check: the question.
        function: the function, or what was sampled of a script.
        path: the profile or recording.
        look: the command that shows the lines.
        samples_below: for what was sampled, returns in how many samples a line waits for others that it calls. The
            verdict then tells samples, as the report does, whose shares are of the whole recording.
    """
    number, hottest = int(check.answer()), function.hottest
    assert hottest
    here = function.seconds_in(number)
    if samples_below and (below := samples_below(number)) > here:
        return check.wrong(LineReason.WAITS_FOR_LINE(samples=below, line=number, file=function.file.name), look)
    if number not in {line.number for line in function.lines}:
        absent = LineReason.NOT_SAMPLED if samples_below else LineReason.NOT_IN_FUNCTION
        return check.wrong(absent(line=number, recording=path.name, function=function.name), look)
    line = {"line": number, "function": function.name, "source": getline(str(function.file), number).strip()}
    found: Reason
    if samples_below:
        found = LineReason.SAMPLES(samples=here, of=function.seconds, **line)
    else:
        found = LineReason.TIME(share=function.share(number), **line)
    if function.share(number) >= MIN_OF_HOTTEST * function.share(hottest.number):
        return check.right(found)
    return check.wrong(LineReason.ANOTHER_TAKES_MORE(found), look)


def judge_fault(check: AnswerCheck) -> Verdict:
    """Ask for the line of the fault, numbered as in the untouched or as in the present script, and for its cause."""
    case, causes = check.part, check.question.causes
    assert isinstance(case, Case)
    expected = f"give the number of a line and a cause, such as 41:{causes[0]}; the causes are {', '.join(causes)}"
    match = check.answer_like(rf"(\d+)[\s:,]+({'|'.join(causes)})", expected)
    line, cause = int(match[1]), match[2]
    right_line = line in case.right_lines(case.untouched) | case.right_lines(check.script)
    right_cause = cause == case.cause
    kinds = (FaultReason.OTHER_FAULT, FaultReason.OTHER_LINE), (FaultReason.OTHER_CAUSE, FaultReason.RIGHT)
    found = kinds[right_line][right_cause](line=line, cause=cause)
    return check.right(found) if right_line and right_cause else check.wrong(found, f"workshop measure {check.command}")
