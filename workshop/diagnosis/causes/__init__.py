"""The causes that hold a script up: in the loading, in the script's own lines, in the computing, at the GPU."""

from workshop.diagnosis.causes.computing import computing_findings
from workshop.diagnosis.causes.device import device_findings
from workshop.diagnosis.causes.loading import loading_findings
from workshop.diagnosis.causes.own_code import own_code_findings
from workshop.diagnosis.findings import Finding, in_order
from workshop.diagnosis.measurement import Measurement


def findings(measurement: Measurement) -> list[Finding]:
    """Return what holds a script up, what can bring most first; nothing for a script that is as it should be."""
    of_all = (loading_findings, own_code_findings, computing_findings, device_findings)
    return in_order([found for of_one in of_all for found in of_one(measurement)])
