"""Causes that a trial has shown: what is computed for nothing, and settings with which it is computed faster."""

from workshop.diagnosis.findings import MEASURED_MARGIN, Finding, finding
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.tried import TriedChange, line_to_change, tried_changes
from workshop.probe.observations import Trial
from workshop.terminal import some_of


def tried_findings(measurement: Measurement) -> list[Finding]:
    """Return what was faster in a trial; of those that exclude each other, the one that brings most."""
    found: list[Finding] = []
    groups = set[str]()
    for each in tried_changes(measurement):
        if each.cause.words and each.has_effect and each.cause.group not in groups:
            found.append(_finding(measurement, each))
            groups.update({each.cause.group} - {""})
    return found


def _finding(measurement: Measurement, change: TriedChange) -> Finding:
    """Return the finding that a change which was faster is."""
    trial, cause = change.trial, change.cause
    often = f", {change.times:.2g} times a step" if round(change.times, 1) not in (0.0, 1.0) else ""
    words = cause.words_where_it_leads_on if trial.leads_on else cause.words
    said = [words.format(about=_about(trial), setting=trial.setting, number=trial.setting.partition(" ")[0])]
    said.append(f"Tried: {trial.as_it_is_s * 1e3:.2f} ms became {trial.changed_s * 1e3:.2f}{often}. {change.results}")
    if trial.begin_s >= 1.0:
        said.append(f"The first step takes {trial.begin_s:.0f} s longer.")
    share = 1.0 - 1.0 / change.most_gain
    return finding(
        cause,
        " ".join(each.strip() for each in said),
        gain=change.most_gain,
        low=change.gain,
        phase=cause.phases[0] if len(cause.phases) == 1 else "",
        path=line_to_change(measurement, change),
        ms_a_step=share * change.step_ms,
        share=share,
        margin=MEASURED_MARGIN,
        measured=True,
    )


def _about(trial: Trial) -> str:
    """What was changed, as a sentence has it: the first few of many names, and the optimizer that a list ends with."""
    names, ends, rest = trial.about.partition("; ")
    return f"{some_of(names.split(', '))}{ends}{rest}"
