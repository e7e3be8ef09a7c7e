"""Many small operators: loops over small tensors, and small modules of the same shapes, one after the other."""

from workshop.diagnosis.findings import Finding, finding, gain_of
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.diagnosis.tried import finding_of, tried_changes
from workshop.diagnosis.user_lines import Path, hottest, trunk_of
from workshop.probe.cause import Cause
from workshop.probe.observations import BackwardPass
from workshop.probe.phases import Phase
from workshop.probe.settings import SMALL_OPERATORS

TINY_OPERATORS = Cause(
    "tiny-operators",
    "{repeated:.0f} of {operations:.0f} operators of a step repeat others in a loop, and most of their time goes into "
    "the calls, not the numbers: compute with larger tensors in place of the loop.",
)
SMALL_MODULES = Cause(
    "tiny-operators",
    "Modules of the same shapes are called one after the other, each with small operators: call all of them at once, "
    "with torch.func.stack_module_state and vmap, or with one batched product a layer. Tried: {before_ms:.2f} ms "
    "became {after_ms:.2f}. {results}",
)

MIN_REPEATED = 300
"""Operations of a step, at least, that repeat others in a loop, to take time worth saving."""

MAX_SMALL = 2.5
"""The factor, at most, by which operators take longer than the trial's if they are small."""

SHARE_OF_CALLS = 0.72
"""Share of small operators' time that goes into calls, whatever their size; measured in scripts with such loops."""


def computing_findings(measurement: Measurement) -> list[Finding]:
    """Return loops over small tensors: by a trial of the modules in them, or by the number of repeated operators."""
    for each in tried_changes(measurement):
        if each.name == "small-modules" and each.has_effect:
            before_ms, after_ms = each.trial.as_it_is_s * 1e3, each.trial.changed_s * 1e3
            words = SMALL_MODULES.words.format(before_ms=before_ms, after_ms=after_ms, results=each.results).strip()
            return [finding_of(each, SMALL_MODULES, words, _loop(measurement))]
    observations, step_ms = measurement.observations, measurement.undisturbed_ms
    passes = observations.backward_passes
    count = len({each.step for each in passes}) or 1
    operations = sum(each.operations for each in passes) / count
    repeated = sum(_repeated(observations, each) for each in passes) / count
    if repeated < MIN_REPEATED:
        return []
    both = measurement.table.share(Phase.FORWARD, Phase.BACKWARD)
    each_ms = both * step_ms / operations
    small_ms = _saved(observations, "tiny-operators")[0] / SMALL_OPERATORS
    _, saved = _saved(observations, "once-for-all")
    slowed = measurement.machine.slows_by if measurement.machine else 1.0  # the trial is too short to be interrupted
    if not saved and each_ms / slowed < MAX_SMALL * small_ms:
        saved = SHARE_OF_CALLS
    part = min(repeated * max(saved * each_ms, small_ms) / step_ms, both)
    return [
        finding(
            TINY_OPERATORS,
            TINY_OPERATORS.words.format(repeated=repeated, operations=operations),
            gain=gain_of(1.0, 1.0 - part),
            phase=Phase.FORWARD,
            path=_loop(measurement),
            ms_a_step=part * measurement.steps.ms_a_step,
            share=part,
        )
    ]


def _loop(measurement: Measurement) -> Path:
    """The line of a loop in the forward pass that takes most time."""
    steps, passes = measurement.steps, measurement.observations.backward_passes
    trunk = trunk_of(path for path, _ in measurement.user_paths(steps, Phase.OPTIMIZER))
    paths = list(measurement.user_paths(steps, Phase.FORWARD))
    loops = {(path, number) for each in passes for path, number, _ in each.loops}
    in_loops = [each for each in paths if any((frame.path, frame.line) in loops for frame in each[0])]
    line = hottest(in_loops or paths, trunk)
    return line.path if line else ()


def _saved(observations: Observations, name: str) -> tuple[float, float]:
    """The milliseconds that a trial saved, and their share; 0 if there was no trial or it failed."""
    trial = observations.trials.get(name)
    if trial is None or trial.error:
        return 0.0, 0.0
    saved_s = max(0.0, trial.as_it_is_s - trial.changed_s)
    return saved_s * 1e3, saved_s / trial.as_it_is_s


def _repeated(observations: Observations, backward: BackwardPass) -> float:
    """The number of operations that vanish if each loop of user code becomes a single iteration."""
    loops: dict[tuple[str, int], int] = {}
    for path, line, times in backward.loops:
        loops[path, line] = max(times, loops.get((path, line), 1))
    repeated = 0.0
    for _, operations, stack in backward.parts:
        times = max(
            (loops.get((frame.path, frame.line or 0), 1) for frame in observations.user_frames_of(stack)), default=1
        )
        repeated += operations * (1.0 - 1.0 / times)
    return repeated
