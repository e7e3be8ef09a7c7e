"""Causes in the computing itself: many small operators, and settings that slow every operator down."""

from workshop.diagnosis.findings import Finding, finding, gain_of
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.diagnosis.tried import TriedChange, is_faster, tried_changes
from workshop.diagnosis.user_lines import Path, hottest, trunk_of
from workshop.probe.observations import BackwardPass
from workshop.probe.phases import COMPUTING, Phase
from workshop.probe.settings import SMALL_OPERATORS

MANY_OPERATIONS = 300
"""Loops with fewer repeated operations than this take no time worth saving."""

TINY = 2.5
"""Operators that take more than this many times as long as the trial's are not small."""

MOSTLY_CALLS = 0.72
"""The share of small operators' time that goes into calls, whatever their size; measured in scripts with such loops."""


def computing_findings(measurement: Measurement) -> list[Finding]:
    """Return what slows the computing down."""
    return [*_tiny_operators(measurement), *_settings(measurement)]


def _tiny_operators(measurement: Measurement) -> list[Finding]:
    """Loops over small tensors: by a trial of the modules in them, or else by the number of repeated operators."""
    if at_once := [each for each in tried_changes(measurement) if each.name == "small-modules" and each.has_effect]:
        return [_small_modules(at_once[0], _loop(measurement))]
    observations, step_ms = measurement.observations, measurement.undisturbed_ms
    passes = observations.backward_passes
    count = len({each.step for each in passes}) or 1
    operations = sum(each.operations for each in passes) / count
    repeated = sum(_repeated(observations, each) for each in passes) / count
    if repeated < MANY_OPERATIONS:
        return []
    both = measurement.table.share(Phase.FORWARD, Phase.BACKWARD)
    each_ms = both * step_ms / operations
    small_ms = _saved(observations, "tiny-operators")[0] / SMALL_OPERATORS
    _, saved = _saved(observations, "once-for-all")
    slowed = measurement.machine.slows_by if measurement.machine else 1.0  # the trial is too short to be interrupted
    if not saved and each_ms / slowed < TINY * small_ms:
        saved = MOSTLY_CALLS
    part = min(repeated * max(saved * each_ms, small_ms) / step_ms, both)
    return [
        finding(
            "tiny-operators",
            f"{repeated:.0f} of {operations:.0f} operators of a step repeat others in a loop, and most of their time "
            "goes into the calls, not the numbers: compute with larger tensors in place of the loop.",
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


def _small_modules(change: TriedChange, path: Path) -> Finding:
    """Modules of the same shapes that were tried at once."""
    share = 1.0 - 1.0 / change.most_gain
    return finding(
        "tiny-operators",
        "Modules of the same shapes are called one after the other, each with small operators: call all of them at "
        "once, with torch.func.stack_module_state and vmap, or with one batched product a layer. Tried: "
        f"{change.as_it_is_s * 1e3:.2f} ms became {change.changed_s * 1e3:.2f}. {change.results}".strip(),
        gain=change.most_gain,
        low=change.gain,
        path=path,
        ms_a_step=share * change.step_ms,
        share=share,
        margin=OF_A_COPY,
        measured=True,
    )


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


OF_A_COPY = 1.1
"""In the training itself, the cost may be this many times that on the model's copy, which has a different loss."""

_WORDS = {
    "one-thread": "The operators run on one thread, though there are more cores: leave the number of threads to torch, "
    "or set it to what was tried.",
    "anomaly-mode": "Anomaly mode checks every operation: switch it on only to look for a NaN.",
    "float64": "The model computes in double precision: if 7 digits are enough, use float32, from the data on.",
}

_ASKED_BY: dict[str, set[tuple[str, str]]] = {
    "one-thread": {("set_num_threads", "1")},
    "anomaly-mode": {("detect_anomaly", ""), ("detect_anomaly", "True")},
    "float64": {("double", ""), ("set_default_dtype", "torch.float64"), ("to", "torch.float64")},
}
"""The functions that request each setting, with their argument, if any."""


def _settings(measurement: Measurement) -> list[Finding]:
    """Findings on the settings that were tried on a copy of the model."""
    steps = measurement.steps
    found = []
    for cause, words in _WORDS.items():
        trial = measurement.observations.trials.get(cause)
        if not trial or trial.error or trial.changed_s >= trial.as_it_is_s or not is_faster(measurement, trial):
            continue
        phases = COMPUTING[:2] if cause == "anomaly-mode" else COMPUTING
        share = measurement.table.share(*phases) * (1.0 - trial.changed_s / trial.as_it_is_s)
        found.append(
            finding(
                cause,
                f"{words} On a copy of the model the speedup was {trial.as_it_is_s / trial.changed_s:.2f}x"
                f"{f', with {trial.setting}' if trial.setting else ''}.",
                gain=gain_of(1.0, 1.0 - share),
                path=_where(measurement, cause),
                ms_a_step=share * steps.ms_a_step,
                share=share,
                margin=OF_A_COPY,
                measured=True,
            )
        )
    return found


def _where(measurement: Measurement, cause: str) -> Path:
    """Return where the script requested the setting; empty if it did not."""
    observations = measurement.observations
    for each in reversed(observations.settings):
        calls = {(each.function, value) for value in each.values or [""]}
        if calls & _ASKED_BY[cause]:
            return observations.user_frames_of(each.stack)
    return ()
