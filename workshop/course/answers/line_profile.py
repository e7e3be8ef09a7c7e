"""Judges an answer by the participant's line profile."""

from pathlib import Path

from workshop.course.answers.question import Question
from workshop.judge.verdict import Verdict
from workshop.profiles import line_profile


def judge(question: Question) -> Verdict:
    """Ask for the line in which the part's function spends its time."""
    script, name = question.script, question.part.profiled
    path = newest_profile(script)
    run_again = f"run kernprof -lv {script.name} with its config once more"
    if path is None:
        return question.not_yet(f"there is no {script.name}.lprof here", run_again)
    function = line_profile.find(path, script, name)
    if function is None:
        others = {each.file.resolve() for each in line_profile.read(path)} - {script.resolve()}
        of = f"; it was taken of {min(others)}" if others else ""
        hint = f"put @profile above def {name}, and {run_again}"
        return question.not_yet(f"{path.name} does not cover {name} of {script}{of}", hint)
    main = line_profile.find(path, script, "main")
    if stale := line_profile.why_stale(path, function, script, ran_s=main.seconds if main else 0.0):
        return question.not_yet(f"the profile is stale: {stale}", run_again)
    if function.hottest is None:
        return question.not_yet(
            f"{name} has 0 hits in {path.name}: either it never ran, or DataLoader workers ran it",
            f"profile with num_workers=0, or with worker_init_fn=profile_worker: workshop show {question.part.name}",
        )
    return question.judge_line(function)


def newest_profile(script: Path) -> Path | None:
    """Return the newest line profile of a script; kernprof writes it to the folder that it is started in."""
    beside = script.with_name(f"{script.name}.lprof")
    by_variable = Path.cwd() / "profile_output.lprof"  # of LINE_PROFILE=1
    found = [path for path in {beside, Path.cwd() / beside.name, by_variable} if path.is_file()]
    for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
        if any(line_profile.same_file(function.file, script) for function in line_profile.read(path)):
            return path
    return beside if beside in found else None
