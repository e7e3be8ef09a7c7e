"""Tries what a change to the way of computing would bring: each kind of trial is a file, and stands in a table here.

A trial of a model gets a module with the arguments of a call, a trial of an optimizer gets one that is about to step.
Both work on copies, and make two passes: unchanged, and changed. They may return what they have changed, in words.
They raise `NothingToTryError` where nothing can be changed.
"""

import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.event_file import EventFile
from workshop.probe.observations import Trial, WireFrame
from workshop.probe.optimizers import parameters_of
from workshop.probe.trials.bfloat16 import bfloat16
from workshop.probe.trials.channels_last import channels_last
from workshop.probe.trials.compiled import compiled
from workshop.probe.trials.copies import copied_arguments, of_one_process
from workshop.probe.trials.copy_room import ensure_room
from workshop.probe.trials.cudnn_benchmark import cudnn_benchmark
from workshop.probe.trials.inference_mode import inference_mode
from workshop.probe.trials.matmul_precision import matmul_precision
from workshop.probe.trials.no_anomaly_mode import no_anomaly_mode
from workshop.probe.trials.once_for_all import once_for_all
from workshop.probe.trials.other_optimizer import foreach, fused
from workshop.probe.trials.other_threads import other_threads
from workshop.probe.trials.pinned_copy import pinned_copy
from workshop.probe.trials.set_to_none import set_to_none
from workshop.probe.trials.single_precision import single_precision
from workshop.probe.trials.small_modules import small_modules
from workshop.probe.trials.sparse_embedding import Rows, sparse_embedding
from workshop.probe.trials.tiny_operators import tiny_operators
from workshop.probe.trials.trial_race import NothingToTryError, Pass, race, random_states_kept, why_not

Passes: TypeAlias = Iterator[Pass] | Generator[Pass, None, str]

TRIALS: dict[str, Callable[[nn.Module, Any, Any], Passes]] = {
    "one-thread": other_threads,
    "float64": single_precision,
    "anomaly-mode": no_anomaly_mode,
    "tiny-operators": tiny_operators,
    "once-for-all": once_for_all,
    "small-modules": small_modules,
    "other-threads": other_threads,
    "set-to-none": set_to_none,
    "inference-mode": inference_mode,
    "channels-last": channels_last,
    "bfloat16": bfloat16,
    "matmul-precision": matmul_precision,
    "cudnn-benchmark": cudnn_benchmark,
    "torch-compile": compiled,
}
"""The trials of a model, by the cause that they test."""

OPTIMIZER_TRIALS: dict[str, Callable[[Optimizer], Passes]] = {
    "fused-optimizer": fused,
    "foreach-optimizer": foreach,
}
"""The trials of an optimizer."""


OF_MODEL, OF_OPTIMIZER = 6, 10
"""The memory of a trial, in that of the parameters: two copies with gradients and states, and what passes make."""


def attempt(name: str, model: nn.Module, inputs: Any, options: Any, events: EventFile, times: float = 1.0) -> None:
    """Try one of `TRIALS` on a model that is called so often in a step, and note the result."""

    def passes() -> Passes:
        ensure_room(model.parameters(), OF_MODEL)
        given, given_options = copied_arguments(inputs, options)
        return TRIALS[name](of_one_process(model), given, given_options)

    note_race(name, passes, events, about=type(model).__name__, times=times)


def attempt_of_optimizer(name: str, optimizer: Optimizer, events: EventFile) -> None:
    """Try one of `OPTIMIZER_TRIALS`, and note the result."""

    def passes() -> Passes:
        ensure_room(parameters_of(optimizer), OF_OPTIMIZER)
        return OPTIMIZER_TRIALS[name](optimizer)

    note_race(name, passes, events, about=type(optimizer).__name__)


def attempt_sparse(optimizer: Optimizer, rows: Rows, events: EventFile) -> None:
    """Try sparse gradients of the embeddings that this step has asked for rows, and note the result."""
    largest_first = sorted(rows, key=lambda each: each.weight.numel(), reverse=True)
    sizes = ", ".join(f"{each.num_embeddings} x {each.embedding_dim}" for each in largest_first)

    def passes() -> Passes:
        ensure_room((each.weight for each in rows), OF_OPTIMIZER)
        return sparse_embedding(optimizer, rows)

    note_race("dense-embedding", passes, events, about=f"{sizes}; {type(optimizer).__name__}")


def attempt_pinned(tensor: torch.Tensor, device: torch.device, has_workers: bool, events: EventFile) -> None:
    """Try the copy of a tensor to a GPU from pinned memory, and note the result."""
    size = f"{tensor.numel() * tensor.element_size() / 1e6:.1f} MB"

    def passes() -> Passes:
        ensure_room([tensor], 2)
        return pinned_copy(tensor, device, has_workers)

    note_race("pageable-copy", passes, events, about=size)


def note_race(
    name: str,
    passes: Callable[[], Passes],
    events: EventFile,
    about: str,
    stack: tuple[WireFrame, ...] = (),
    times: float = 1.0,
    leads_on: bool = False,
) -> None:
    """Let the two passes that `passes` makes take turns, and note the result, or why there is none."""
    try:
        with warnings.catch_warnings(), random_states_kept():
            warnings.simplefilter("ignore")
            made = passes()
            try:
                result = race(next(made), next(made))
                setting = _rest_of(made)
            finally:
                if isinstance(made, Generator):
                    made.close()  # what was changed is put back
        noted = {"about": about, "stack": stack, "times": times, "setting": setting, "leads_on": leads_on}
        events.write(Trial, name=name, **vars(result), **noted)
    except Exception as error:  # models that cannot be copied fail in many ways
        why, applies = why_not(error), not isinstance(error, NothingToTryError)
        events.write(Trial, name=name, as_it_is_s=0.0, changed_s=0.0, error=why, applies=applies, about=about)


def _rest_of(passes: Passes) -> str:
    """Let a trial end, and return what it says."""
    try:
        next(passes)
    except StopIteration as end:
        return end.value or ""
    return ""
