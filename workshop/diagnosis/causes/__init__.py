"""The bottlenecks of a script: in loading, in other user code, in computing, at the GPU, in trials."""

from collections import defaultdict

from workshop.diagnosis.causes.data_wait import data_wait_findings
from workshop.diagnosis.causes.gpu import gpu_findings
from workshop.diagnosis.causes.launch_loops import one_for_each_loop
from workshop.diagnosis.causes.other_work import other_work_findings
from workshop.diagnosis.findings import Finding, in_order, limited, within_phase
from workshop.diagnosis.headrooms import Headrooms
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.tried import tried_findings
from workshop.probe.phases import Phase


def findings(measurement: Measurement) -> list[Finding]:
    """Return the bottlenecks, those with the largest potential speedup first."""
    of_all = (data_wait_findings, _other_work, gpu_findings, tried_findings)
    found = without_what_is_measured([each for of_one in of_all for each in of_one(measurement)])
    shares = {str(phase): measurement.table.share(phase) for phase in Phase}
    found = [within_phase(each, shares[each.phase]) if each.phase else each for each in found]
    limits = Headrooms(measurement).known
    return in_order([limited(each, limits[each.half].gain) if each.half in limits else each for each in found])


def _other_work(measurement: Measurement) -> list[Finding]:
    return one_for_each_loop(measurement, other_work_findings(measurement))


def without_what_is_measured(found: list[Finding]) -> list[Finding]:
    """Leave out what is only expected of the time of a line if at least half of that was measured there."""
    measured: dict[tuple[str, int | None], float] = defaultdict(float)
    for each in found:
        if each.measured and each.line:
            measured[each.file, each.line] += each.share
    return [each for each in found if each.measured or each.share > 2.0 * measured[each.file, each.line]]
