"""Judges an answer by the participant's traces of torch.profiler."""

from dataclasses import replace
from pathlib import Path

from workshop.course.answers.answer_check import MIN_OF_HOTTEST, AnswerCheck, typed, with_note
from workshop.judge.verdict import Outcome, Verdict
from workshop.probe.phases import TRACED
from workshop.recording.output_paths import TRACES
from workshop.traces import load, read
from workshop.traces.steps import stragglers, traced_steps

MIN_BEHIND = 0.1
"""A rank is slow if it works longer than the quickest one by at least this share of a step."""


def judge_phase(check: AnswerCheck) -> Verdict:
    """Ask which phase takes most of a step, and look into the newest trace of the script."""
    script = check.script
    record = f"workshop record torch --stop -- {check.command}"
    check.say(f"reading the traces of {script.name}")
    trace = next((trace for trace in map(read, _newest_first(check)) if trace.script == script.name), None)
    if trace is None:
        return check.not_yet(f"there is no trace of {script.name} in {_where(check)}", record)
    path, steps = trace.path, traced_steps(trace)
    if script.stat().st_mtime > path.stat().st_mtime:
        return check.not_yet(f"the trace is stale: {script.name} was saved after {path.name} was written", record)
    if not steps:
        return check.not_yet(f"there is no step in {path.name}", record)
    phases = {phase.short: phase for phase in TRACED}
    phase = phases[check.answer(*phases)]
    whole = sum(step.end - step.start for step in steps)
    shares = {str(phase): sum(step.phases[phase] for step in steps) / whole for phase in TRACED}
    says = f"{phase} takes {shares[phase]:.0%} of the {len(steps)} steps in {path.parent.name}/{path.name}"
    if shares[phase] >= MIN_OF_HOTTEST * max(shares.values()):
        return with_note(replace(check.verdict(Outcome.DONE, says), shares=shares), path)
    return with_note(check.wrong(f"{says}; another phase takes more", f"workshop trace {typed(path.parent)}"), path)


def judge_slow_rank(check: AnswerCheck) -> Verdict:
    """Ask which rank is slower than the others, and look into the newest traces of several ranks."""
    part, script = check.part, check.script
    check.say(f"reading the traces of {script.name}")
    missing = f"there is no trace of {script.name} on {part.ranks} ranks in {_where(check)}"
    for folder in dict.fromkeys(path.parent for path in _newest_first(check)):
        traces = load([folder])
        if len(traces) < part.ranks or {trace.script for trace in traces.values()} != {script.name}:
            continue
        table = stragglers(traces)
        if not table:
            missing = f"the ranks in {folder.name} exchange nothing: record once they train one model"
            continue
        behind = table[0]["behind(us)"] / table[0]["step(us)"]
        if behind < MIN_BEHIND:
            found = f"no rank in {folder.name} is much slower than the others ({behind:.0%} of a step)"
            missing = f"{found}: record with configs/bad_node_config.py, when the machine is quiet"
            continue
        answer = check.answer(*sorted(str(row["rank"]) for row in table))
        row = next(row for row in table if str(row["rank"]) == answer)
        says = f"in {folder.name}, rank {answer} works for {row['own_work(us)'] / 1e6:.2f} s of each step"
        recorded = next(iter(traces.values())).path
        if row is table[0]:
            quickest_s = (table[0]["own_work(us)"] - table[0]["behind(us)"]) / 1e6
            right = check.verdict(Outcome.DONE, f"{says}, the quickest rank for {quickest_s:.2f} s")
            return with_note(right, recorded)
        look = f"workshop trace {typed(folder)} --tables stragglers"
        return with_note(check.wrong(f"{says}; another one works more, and this one waits for it", look), recorded)
    return check.not_yet(missing, f"workshop show {part.name}")


def _newest_first(check: AnswerCheck) -> list[Path]:
    """Return the traces where they were said to be, or else in folders called prof, prof-2, ..."""
    here = {folder.resolve() for folder in (Path.cwd(), check.script.parent)}
    usual = [each for folder in here for each in folder.glob("prof*") if each.is_dir()]
    places = [check.recording] if check.recording else usual
    paths = [path for place in places for path in (place.glob(TRACES) if place.is_dir() else [place])]
    return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)


def _where(check: AnswerCheck) -> str:
    return str(check.recording or "prof, prof-2, ... here; if it is in another folder, say --recording FOLDER")
