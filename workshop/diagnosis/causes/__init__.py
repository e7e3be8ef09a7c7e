"""The causes that hold a script up: in the loading, in the script's own lines, in the computing."""

from workshop.diagnosis.causes.computing import computing_findings
from workshop.diagnosis.causes.loading import loading_findings
from workshop.diagnosis.causes.own_code import own_code_findings
from workshop.diagnosis.findings import Finding, in_order
from workshop.diagnosis.measurement import Measurement


def findings(measurement: Measurement) -> list[Finding]:
    """Return what holds a script up, what can bring most first; nothing for a script that is as it should be."""
    return in_order([*loading_findings(measurement), *own_code_findings(measurement), *computing_findings(measurement)])
