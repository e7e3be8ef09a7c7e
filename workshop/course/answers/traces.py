"""Judges an answer by the participant's traces of torch.profiler."""

from dataclasses import replace
from pathlib import Path

from workshop.course.answers import MIN_OF_HOTTEST, AnswerCheck, typed, with_note
from workshop.judge.reasons import ReasonKind
from workshop.judge.verdict import Verdict
from workshop.probe.phases import TRACED
from workshop.recording.output_paths import TRACES
from workshop.traces import read
from workshop.traces.steps import stragglers, traced_steps
from workshop.traces.trace_files import load


class TraceReason(ReasonKind):
    """What is said of a phase or a rank that was named, and of the traces that it is looked up in."""

    NO_TRACE = "there is no trace of {script} in {where}"
    STALE = "the trace is stale: {script} was saved after {trace} was written"
    NO_STEP = "there is no step in {trace}"
    PHASE = "{phase} takes {share:.0%} of the {steps} steps in {folder}/{trace}"
    ANOTHER_PHASE = "{0}; another phase takes more"
    NO_TRACE_OF_RANKS = "there is no trace of {script} on {ranks} ranks in {where}"
    NO_EXCHANGE = "the ranks in {folder} exchange nothing: record once they train one model"
    NONE_IS_SLOW = (
        "no rank in {folder} is much slower than the others ({behind:.0%} of a step): record with "
        "configs/bad_node_config.py, when the machine is quiet"
    )
    RANK = "in {folder}, rank {rank} works for {own_s:.2f} s of each step"
    SLOW_RANK = "{0}, the quickest rank for {quickest_s:.2f} s"
    ANOTHER_RANK = "{0}; another one works more, and this one waits for it"


def judge_phase(check: AnswerCheck) -> Verdict:
    """Ask which phase takes most of a step, and look into the newest trace of the script."""
    script = check.script
    record = f"workshop record torch --stop -- {check.command}"
    check.say(f"reading the traces of {script.name}")
    trace = next((trace for trace in map(read, _newest_first(check)) if trace.script == script.name), None)
    if trace is None:
        return check.not_yet(TraceReason.NO_TRACE(script=script.name, where=_where(check)), record)
    path, steps = trace.path, traced_steps(trace)
    if script.stat().st_mtime > path.stat().st_mtime:
        return check.not_yet(TraceReason.STALE(script=script.name, trace=path.name), record)
    if not steps:
        return check.not_yet(TraceReason.NO_STEP(trace=path.name), record)
    phases = {phase.short: phase for phase in TRACED}
    phase = phases[check.answer(*phases)]
    whole = sum(step.end - step.start for step in steps)
    shares = {str(phase): sum(step.phases[phase] for step in steps) / whole for phase in TRACED}
    place = {"folder": path.parent.name, "trace": path.name}
    found = TraceReason.PHASE(phase=phase, share=shares[phase], steps=len(steps), **place)
    if shares[phase] >= MIN_OF_HOTTEST * max(shares.values()):
        return with_note(replace(check.right(found), shares=shares), path)
    return with_note(check.wrong(TraceReason.ANOTHER_PHASE(found), f"workshop trace {typed(path.parent)}"), path)


def judge_slow_rank(check: AnswerCheck) -> Verdict:
    """Ask which rank is slower than the others, and look into the newest traces of several ranks."""
    part, script = check.part, check.script
    check.say(f"reading the traces of {script.name}")
    missing = TraceReason.NO_TRACE_OF_RANKS(script=script.name, ranks=part.ranks, where=_where(check))
    for folder in dict.fromkeys(path.parent for path in _newest_first(check)):
        traces = load([folder])
        if len(traces) < part.ranks or {trace.script for trace in traces.values()} != {script.name}:
            continue
        table = stragglers(traces)
        if not table:
            missing = TraceReason.NO_EXCHANGE(folder=folder.name)
            continue
        behind = table[0]["behind(us)"] / table[0]["step(us)"]
        if behind < 0.1:  # of a step: less may be noise
            missing = TraceReason.NONE_IS_SLOW(folder=folder.name, behind=behind)
            continue
        answer = check.answer(*sorted(str(row["rank"]) for row in table))
        row = next(row for row in table if str(row["rank"]) == answer)
        found = TraceReason.RANK(folder=folder.name, rank=answer, own_s=row["own_work(us)"] / 1e6)
        recorded = next(iter(traces.values())).path
        if row is table[0]:
            quickest_s = (table[0]["own_work(us)"] - table[0]["behind(us)"]) / 1e6
            return with_note(check.right(TraceReason.SLOW_RANK(found, quickest_s=quickest_s)), recorded)
        look = f"workshop trace {typed(folder)} --tables stragglers"
        return with_note(check.wrong(TraceReason.ANOTHER_RANK(found), look), recorded)
    return check.not_yet(missing, f"workshop show {part.name}")


def _newest_first(check: AnswerCheck) -> list[Path]:
    """Return the traces where they were said to be, or else in folders called prof, prof-2, ..."""
    here = {folder.resolve() for folder in (Path.cwd(), check.script.parent)}
    folders = [folder for place in here for folder in place.glob("prof*") if folder.is_dir()]
    places = [check.recording] if check.recording else folders
    paths = [path for place in places for path in (place.glob(TRACES) if place.is_dir() else [place])]
    return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)


def _where(check: AnswerCheck) -> str:
    return str(check.recording or "prof, prof-2, ... here; if it is in another folder, say --recording FOLDER")
