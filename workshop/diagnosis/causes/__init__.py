"""The bottlenecks of a script: in the loading, in other user code, in the computing, at the GPU."""

from workshop.diagnosis.causes.computing import computing_findings
from workshop.diagnosis.causes.data_wait import loading_findings
from workshop.diagnosis.causes.gpu import device_findings
from workshop.diagnosis.causes.other_work import own_code_findings
from workshop.diagnosis.findings import Finding, in_order
from workshop.diagnosis.measurement import Measurement


def findings(measurement: Measurement) -> list[Finding]:
    """Return the bottlenecks, those with the largest potential speedup first."""
    of_all = (loading_findings, own_code_findings, computing_findings, device_findings)
    return in_order([found for of_one in of_all for found in of_one(measurement)])
