"""Causes that a trial has shown: what is computed for nothing, and settings with which it is computed faster."""

from workshop.diagnosis.findings import Finding, finding
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.tried import PHASES, TriedChange, trial_of, tried_changes, zeroing
from workshop.diagnosis.user_lines import Path
from workshop.probe.settings import TRIALS_OF_OPTIMIZER
from workshop.terminal import some_of

_WORDS = {
    "unused-gradients": "A backward pass computes gradients of {about} that are cleared before anything reads them: "
    "detach what comes from there before it goes into this pass. If no other pass needs it, make it under "
    "torch.no_grad().",
    "graph-twice": "This backward pass goes once more through what that of line {about} went through: add both losses, "
    "and call backward once, unless the gradients are read in between.",
    "unused-graph": "This call of {about} builds a graph that no backward pass went through while it was watched: if "
    "none ever does, call it under torch.no_grad().",
    "repeated-call": "This call of {about} gets the same inputs as an earlier one of the step, and returns the same: "
    "call it once, and use what it has returned again.{setting}",
    "padded-batches": "{about} are padding in every sample of a batch: where batches are put together, pad each one to "
    "its own longest sample. Where neither the model nor the loss masks padding, as in a mean over all positions, the "
    "results change: compare the loss of a batch with and without.",
    "ignored-targets": "{about} are ignored by the loss: pick the positions that count before this layer, for its "
    "inputs and the targets alike.",
    "dense-embedding": "A step touches few rows of an embedding ({about}), and each step fills, and goes over, the "
    "gradient of all rows: pass sparse=True to nn.Embedding, and its parameters to SparseAdam, SGD or Adagrad of "
    "torch.optim.",
    "fused-optimizer": "The optimizer ({about}) is faster with one operator for all parameters: pass fused=True to it.",
    "foreach-optimizer": "The optimizer ({about}) is faster if it steps all parameters at a time: pass foreach=True to "
    "it.",
    "torch-compile": "The model ({about}) is faster with torch.compile(model).",
    "channels-last": "The convolutions of the model ({about}) are faster on channels that come last: "
    "model.to(memory_format=torch.channels_last), and the same for the pictures.",
    "bfloat16": "The model ({about}) is faster in bfloat16: call it under torch.autocast, and see how well it learns.",
    "matmul-precision": 'Matrix products are faster in TF32: torch.set_float32_matmul_precision("high").',
    "cudnn-benchmark": "Convolutions are faster with torch.backends.cudnn.benchmark = True, if their sizes stay.",
    "other-threads": "The model ({about}) is faster with {setting} for each operator: torch.set_num_threads({number}).",
    "set-to-none": "Gradients are cleared by filling them with zeros, to which the next ones are added: leave out "
    "set_to_none=False. An optimizer then passes over parameters that get no gradient in a step.",
    "inference-mode": "The validation calls the model ({about}) under torch.no_grad(): torch.inference_mode() is "
    "faster for what no backward pass ever sees.",
}

_LEADS_ON = (
    "A backward pass computes gradients of {about} that are cleared before anything reads them. Gradients that are "
    "used come through there, so detach nothing: let its parameters require no gradients in this pass, with "
    "requires_grad_(False) before the call and requires_grad_(True) after it."
)
"""What is said of unused gradients where those of other parameters, or of an input, come the same way."""

EXCLUSIVE = (TRIALS_OF_OPTIMIZER, ("unused-graph", "repeated-call"))
"""Changes of which only the one that brings most is named: settings that exclude each other, and two ways to see one
call that is made for a metric."""

OF_TRIAL = 1.1
"""In the training, a change may bring this many times what it saved in the trial."""


def tried_findings(measurement: Measurement) -> list[Finding]:
    """Return what was faster in a trial; of those that exclude each other, the one that brings most."""
    found: list[Finding] = []
    for each in tried_changes(measurement):
        excluded = any(each.name in several and any(one.cause in several for one in found) for several in EXCLUSIVE)
        if each.name in _WORDS and each.has_effect and not excluded:
            found.append(_finding(measurement, each))
    return found


def _finding(measurement: Measurement, change: TriedChange) -> Finding:
    became = f"{change.as_it_is_s * 1e3:.2f} ms became {change.changed_s * 1e3:.2f}"
    often = f"{change.times:.2g} times a step" if round(change.times, 1) not in (0.0, 1.0) else ""
    number = change.setting.partition(" ")[0]
    words = _LEADS_ON if trial_of(measurement, change).leads_on else _WORDS[change.name]
    said = [words.format(about=_about(change), setting=change.setting, number=number)]
    said.append(f"Tried: {', '.join(filter(None, (became, often)))}. {change.results}".strip())
    if change.begin_s >= 1.0:
        said.append(f"The first step takes {change.begin_s:.0f} s longer.")
    share = 1.0 - 1.0 / change.most_gain
    return finding(
        change.name,
        " ".join(said),
        gain=change.most_gain,
        low=change.gain,
        phase=PHASES[change.name][0] if len(PHASES[change.name]) == 1 else "",
        path=_where(measurement, change),
        ms_a_step=share * change.step_ms,
        share=share,
        margin=OF_TRIAL,
        measured=True,
    )


def _about(change: TriedChange) -> str:
    """What was changed, as a sentence has it: the first few of many names, and the optimizer that a list ends with."""
    names, ends, rest = change.about.partition("; ")
    return f"{some_of(names.split(', '))}{ends}{rest}"


def _where(measurement: Measurement, change: TriedChange) -> Path:
    """Return the line that is to be changed: that of the trial, or where an embedding or an optimizer was made."""
    observations = measurement.observations
    if change.name == "set-to-none":
        return zeroing(observations)
    if stack := trial_of(measurement, change).stack:
        return observations.user_frames_of(stack)
    made = {"dense-embedding": "Embedding"}.get(change.name, "Optimizer" if "optimizer" in change.name else "")
    for name in change.about.replace(";", ",").split(", "):
        for each in observations.settings:
            value = " x ".join(each.values[:2]) if made == "Embedding" else each.values[0] if each.values else ""
            if each.function == made and value == name:
                return observations.user_frames_of(each.stack)
    return ()
