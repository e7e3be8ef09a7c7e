"""A recorded step is taken once more by another script, in its own loop, to see whether the same comes out."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from workshop.probe.made_anew import (
    OF_LOSS,
    Entered,
    chance_of_batches,
    compared,
    leaves_of,
    remade,
    used_otherwise,
    with_leaves,
)
from workshop.probe.messages import MadeAnew, Recomputation
from workshop.probe.parameter_map import UnmappedError, maps_of
from workshop.probe.retaken_step import StepToTake, Taken
from workshop.probe.settings import DRAWS
from workshop.probe.training_state import TrainingState, clones, some_of

ROUNDING_TRIALS = 3
"""The number of times that parameters and inputs are rounded at random, to see how the gradients change."""

SURE_ERROR, SHARE_OF_DRAWS = 1e-2, 0.5
"""Error of the gradients, at least, that is no rounding; share of it, at most, that other draws of the models make,
where it does not come from these."""

OTHER_DRAWS = 3
"""The number of other draws with which a step is taken: two may be closer to each other by chance."""

MIN_NOISE = 2**-24
"""The smallest noise of a gradient, relative to its length: half a unit in the last place."""

EXACT = 1e-3
"""Relative error of the gradients, at most, that leaves no doubt which parameters are which."""

Gradients = list[torch.Tensor]
"""Those of a parameter in all steps of its optimizer, one after the other, without a shape."""

Attempts = Generator[StepToTake, Taken, Recomputation]
"""Yields each attempt, gets what came of it, and returns the result."""


@dataclass(frozen=True)
class _Way:
    """A way to make the gradients of a step from those of its shares: the ranks differ by batch norm, and in weight."""

    records: Sequence[dict[str, Any]]
    weights: Sequence[float]
    """The factor of the gradients of each."""


def recompute(samples: Sequence[Path], state: TrainingState, loaders: Mapping[int, DataLoader[Any]]) -> Attempts:
    """Take a recorded step again: the gradients, and what the optimizer makes of those that were recorded.

    Then the inputs of the step are made anew, if it is known which items they are.

    Args:
        samples: the files of the step: one for each rank that took part in it.
        state: the models and optimizers of the script that takes the step.
        loaders: its DataLoaders, by the number of the dataset.
    """
    device = state.parameters[0].device
    records = [torch.load(sample, map_location=device, weights_only=True) for sample in samples]
    for record in records:
        _leave_out_copies(record, state)
    shapes, theirs = (
        [tuple(each.shape) for each in parameters]
        for parameters in (state.parameters, records[0]["before"]["parameters"])
    )
    _share_state(records)
    items = [_items(record) for record in records]
    parts = [count / sum(items) for count in items]
    trials: list[_Trial] = []
    for mapping in maps_of(theirs, shapes):
        try:
            translated = [_with_buffers_of(state, mapping.translated(record)) for record in records]
        except UnmappedError as error:
            return Recomputation(error=str(error))
        for way in _ways(translated, parts):
            trials.append((yield from _tried(way, translated, state, is_mapped=not mapping.is_plain)))
        if min(trial.error for trial in trials) < EXACT:
            break
    if not trials:
        return Recomputation(error="the models have other parameters, and it is not clear which are which")
    best = min(trials, key=lambda trial: trial.error)
    is_drawn, noise = (yield from _is_drawn(best, state)), (yield from _noise(best, state))
    step_error, state_error = _errors_of_step(best.records[0], best.taken[0])  # of the recorded gradients, in any way
    loss = _mean([_loss(each.losses) for each in best.taken], parts)
    recorded_losses = [_loss(each["losses"]) for each in records]
    weighted = [_mean(recorded_losses, weights) for weights in (parts, [1 / len(records)] * len(records))]
    return Recomputation(
        loss=loss,
        recorded_loss=min(weighted, key=lambda each: abs(each - loss)),  # ranks may weight their losses themselves
        gradient_error=best.error,
        gradient_errors=[error / max(level, 1e-30) for error, level in zip(best.off, noise, strict=True)],
        step_error=step_error,
        state_error=state_error,
        buffer_error=max(_buffer_error_after(best.taken, best.records), _buffer_error_before(best.records)),
        apart=max([0.0, *(_apart(records[0], each) for each in records[1:])]),
        doubt=next((each.doubt for each in best.taken if each.doubt), ""),
        is_drawn=is_drawn,
        is_mapped=best.is_mapped,
        copied=state.copied,
        made=(yield from _make_anew(best.records[0], loaders)) if len(records) == 1 else None,
    )


@dataclass(frozen=True)
class _Trial:
    """What came of a step that was taken in one way."""

    way: _Way
    records: Sequence[dict[str, Any]]
    """Of the step, as if this script had recorded it."""
    taken: Sequence[Taken]
    gradients: Gradients
    off: Sequence[float]
    """How far the gradients of each parameter are from those that were recorded."""
    is_mapped: bool
    """Whether the other script's parameters had other shapes, or another order."""

    @property
    def losses(self) -> list[Sequence[torch.Tensor]]:
        """Those of each share."""
        return [each.losses for each in self.taken]

    @property
    def recorded_losses(self) -> list[Sequence[torch.Tensor]]:
        """The recorded ones."""
        return [each["losses"] for each in self.way.records]

    @property
    def lengths(self) -> list[float]:
        """The lengths of the gradients."""
        return [float(each.norm()) for each in self.gradients]

    @property
    def error(self) -> float:
        """The length of the difference between all gradients, relative to theirs."""
        return math.hypot(*self.off) / max(math.hypot(*self.lengths), 1e-30)


def _tried(
    way: _Way, records: Sequence[dict[str, Any]], state: TrainingState, is_mapped: bool
) -> Generator[StepToTake, Taken, _Trial]:
    """Take a step in one way."""
    taken, gradients = yield from _take(way, state)
    off = _distances(gradients, _filled(records[0]["gradients"], state))
    return _Trial(way, records, taken, gradients, off, is_mapped)


def _is_drawn(trial: _Trial, state: TrainingState) -> Generator[StepToTake, Taken, bool]:
    """Return whether the step draws at random, and other draws make a difference that is about as large."""
    loss, recorded = (sum(map(_loss, each)) for each in (trial.losses, trial.recorded_losses))
    off = [math.hypot(*trial.off), abs(recorded - loss)]  # of the gradients, and of the loss
    is_off = trial.error > SURE_ERROR, off[1] > EXACT * abs(loss)
    if not any(is_off) or not any(each.draws for each in trial.taken):
        return False
    moved = [0.0, 0.0]
    for draw in range(1, 1 + OTHER_DRAWS):
        taken, others = yield from _take(trial.way, state, draw=draw)
        moves = math.hypot(*_distances(trial.gradients, others)), abs(sum(_loss(each.losses) for each in taken) - loss)
        moved = list(map(max, moved, moves))
    return all(m > SHARE_OF_DRAWS * o for is_one, m, o in zip(is_off, moved, off, strict=True) if is_one)


def _noise(trial: _Trial, state: TrainingState) -> Generator[StepToTake, Taken, list[float]]:
    """Return how much rounding changes the gradients of each parameter."""
    noise = [MIN_NOISE * length for length in trial.lengths]
    for _ in range(ROUNDING_TRIALS if any(trial.off) else 0):
        _, rounded = yield from _take(trial.way, state, _rounding(trial.records[0]))
        noise = list(map(max, noise, _distances(trial.gradients, rounded)))
    return noise


def _make_anew(
    record: dict[str, Any], loaders: Mapping[int, DataLoader[Any]]
) -> Generator[StepToTake, Taken, MadeAnew | None]:
    """Have the loop make the inputs of a step from the same items, several times where it does not make the same."""
    if not record["addresses"]:
        return None
    addresses, targets = record["addresses"], [(OF_LOSS, [each]) for each in record["targets"]]
    leaves, names = [dict(each) for each in record["batches"]], list[str]()
    recorded = Entered([*((number, tensors) for number, tensors, _ in record["inputs"]), *targets])
    draws: list[Entered] = []
    found, by_chance = MadeAnew(), 1.0
    for numbers in (range(1), range(1, 1 + DRAWS)):
        try:
            made = remade(loaders, addresses, numbers)
        except Exception as error:  # of the script's dataset, or of a worker that hangs
            return MadeAnew(error=f"{type(error).__name__}: {error}")
        if made is None:
            return None
        for draw, batches in zip(numbers, made, strict=True):
            by_chance = min(by_chance, chance_of_batches(leaves, batches))
            taken = yield StepToTake(record, made=batches, draw=draw)
            if taken.doubt:
                return MadeAnew(error=taken.doubt)
            if draw == 0 and len(batches) == 1:
                names = used_otherwise(leaves[0], batches[0], taken.entered)
                recorded = with_leaves(recorded, leaves[0], names)
            draws.append(with_leaves(taken.entered, leaves_of(batches[0]), names))
        found = compared(addresses, recorded, draws, by_chance)
        if found.error or found.same == found.items:
            break
    return found


def _leave_out_copies(record: dict[str, Any], state: TrainingState) -> None:
    """Leave the copies of a model out of a record and of the state, if not both have them."""
    known = len(record["before"]["parameters"])
    state.leave_out_copies(known)
    if len(state.parameters) == known - record["copied"]:
        for of in (record["before"], record):
            for name in {"parameters", "state", "after"} & of.keys():
                of[name] = of[name][: len(state.parameters)]


def _take(
    way: _Way, state: TrainingState, rounding: float = 0.0, draw: int = 0
) -> Generator[StepToTake, Taken, tuple[list[Taken], Gradients]]:
    """Take a step in one way; return what came of each of its shares, and the gradients of the whole."""
    taken = []
    for record in way.records:
        found = yield StepToTake(record, rounding, draw=draw)
        if found.by_use and "by_use" not in record:  # there may be other uses, which are not seen
            record["by_use"] = found.by_use
            found = yield StepToTake(record, rounding, draw=draw)
        taken.append(found)
    shares = [_filled(each.gradients, state) for each in taken]
    total = [sum(map(torch.mul, _as_long(*each), way.weights)) for each in zip(*shares, strict=True)]
    return taken, total if len(shares) > 1 else shares[0]


def _ways(records: Sequence[dict[str, Any]], parts: Sequence[float]) -> list[_Way]:
    """The ways in which ranks may have shared a batch; one alone has it whole."""
    if len(records) == 1:
        return [_Way(records, [1.0])]
    equal = [1 / len(records)] * len(records)
    return [_Way(records, parts), _Way(records, equal), _Way([_joined(records)], [1.0])]


def _joined(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A record of a step in which one process has the batch of all."""

    def together(shares: Sequence[Any]) -> Any:
        is_batch = all(isinstance(each, torch.Tensor) and each.ndim for each in shares)
        return torch.cat(list(shares)) if is_batch else shares[0]

    def of_each(name: str) -> list[tuple[Any, ...]]:
        return list(zip(*(record[name] for record in records), strict=False))

    return records[0] | {
        "inputs": [
            (calls[0][0], list(map(together, zip(*(tensors for _, tensors, _ in calls), strict=True))), calls[0][2])
            for calls in of_each("inputs")
        ],
        "targets": list(map(together, of_each("targets"))),
        "batches": [
            [(leaves[0][0], together([leaf for _, leaf in leaves])) for leaves in zip(*batches, strict=True)]
            for batches in of_each("batches")
        ],
    }


def _items(record: Mapping[str, Any]) -> int:
    """The number of items that enter the models in a step."""
    return sum(len(tensors[0]) for _, tensors, _ in record["inputs"] if tensors and tensors[0] is not None) or 1


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """How far the parameters of two ranks are from each other, before and after the step; relative to the largest."""
    both = ([*each["before"]["parameters"], *(some["parameter"] for some in each["after"])] for each in (one, other))
    return max(_relative_error(a, b) for a, b in zip(*both, strict=True))


def _rounding(record: Mapping[str, Any]) -> float:
    """The relative error of a rounded number. On CUDA, convolutions may round to TensorFloat-32, of 10 bits."""
    device, dtype, is_enabled = record["autocast"]
    precision = torch.finfo(dtype if is_enabled else record["before"]["parameters"][0].dtype).eps
    return max(precision, 2**-11) if device == "cuda" and torch.backends.cudnn.allow_tf32 else precision


def _errors_of_step(record: Mapping[str, Any], taken: Taken) -> tuple[float, float]:
    """Compare what the optimizers made of the recorded gradients; return the errors of parameters and of the state."""
    step_error = state_error = 0.0
    parameters = record["before"]["parameters"]
    before = map(some_of, parameters, record.get("places") or [None] * len(parameters))
    for old, one, other in zip(before, taken.after, record["after"], strict=True):
        change = float((one["parameter"] - old).norm())
        rounding = float(old.norm()) * 2**-22
        difference = float((one["parameter"] - other["parameter"]).norm())
        step_error = max(step_error, max(difference - rounding, 0.0) / change if change else float(difference > 0))
        for name in one.keys() - {"parameter"}:
            wrong = one[name] - other[name].to(one[name]) if name in other else one[name]
            state_error = max(state_error, float(wrong.norm() / one[name].norm().clamp_min(1e-30)))
    return step_error, state_error


def _mean(losses: Sequence[float], parts: Sequence[float]) -> float:
    """The mean loss of the shares of a batch, given the part of the items that each has; or the loss of the whole."""
    return sum(map(mul, losses, parts)) if len(losses) > 1 else losses[0]


def _loss(losses: Sequence[torch.Tensor]) -> float:
    return float(sum(each.mean() for each in losses))


def _filled(gradients: Mapping[int, Sequence[torch.Tensor | None]], state: TrainingState) -> Gradients:
    """The gradients of each parameter that an optimizer steps, zeros where there are none."""

    def flat(parameter: nn.Parameter, gradient: torch.Tensor | None) -> torch.Tensor:
        zeros = torch.zeros(parameter.shape, dtype=parameter.dtype, device=parameter.device)
        return (zeros if gradient is None else gradient.to_dense()).flatten()  # those of an embedding may be sparse

    stepped = [(number, each) for number, each in enumerate(state.parameters) if each in state.owners]
    return [torch.cat([flat(each, one) for one in gradients.get(number) or [None]]) for number, each in stepped]


def _as_long(*gradients: torch.Tensor) -> Gradients:
    """Gradients of the same parameter, zeros where an optimizer has stepped more often in one case than in another."""
    longest = max(map(len, gradients))
    return [nn.functional.pad(each, (0, longest - len(each))) for each in gradients]


def _distances(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> list[float]:
    return [float(torch.sub(*_as_long(*both)).norm()) for both in zip(some, others, strict=True)]


def _share_state(records: Sequence[dict[str, Any]]) -> None:
    """Give the optimizer's state for each parameter to all ranks: of a sharded optimizer, only one has it."""
    for of_ranks in [record["before"]["state"] for record in records], [record["after"] for record in records]:
        for number, states in enumerate(zip(*of_ranks, strict=True)):
            whole = {name: value for state in reversed(states) for name, value in state.items()}
            for state in of_ranks:
                state[number] = whole | state[number]


def _with_buffers_of(state: TrainingState, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the buffers that this script has: its own where the other one lacks some, as a mask."""

    def matched(theirs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        alike: dict[Any, list[torch.Tensor]] = {}
        for each in theirs:
            alike.setdefault(each.shape, []).append(each)
        return [(alike.get(own.shape) or [own]).pop(0) for own in clones(state.buffers)]

    buffers = {name: matched(record[name]) for name in ("left", "buffers_after") if name in record}
    return record | buffers | {"before": record["before"] | {"buffers": matched(record["before"]["buffers"])}}


def _buffer_error_after(taken: Sequence[Taken], records: Sequence[Mapping[str, Any]]) -> float:
    """The largest error after the step: each rank's buffers follow from its share, or all from the whole batch."""
    shares = taken if len(taken) == len(records) else [*taken] * len(records)
    pairs = zip(shares, records, strict=True)
    return max(_buffer_error(share.buffers, record["buffers_after"]) for share, record in pairs)


def _buffer_error_before(records: Sequence[Mapping[str, Any]]) -> float:
    """The largest error before the step: ranks begin with what the last step has left on one of them, or its mean."""
    left = [record["left"] for record in records if "left" in record]
    if len(records) == 1 or len(left) < len(records):
        return 0.0
    mean = [sum(each) / len(left) if each[0].is_floating_point() else each[0] for each in zip(*left, strict=True)]
    return max(min(_buffer_error(each, record["before"]["buffers"]) for each in (*left, mean)) for record in records)


def _buffer_error(taken: Sequence[torch.Tensor], recorded: Sequence[torch.Tensor]) -> float:
    """The largest difference of a buffer, relative to its largest value."""
    pairs = zip(taken, recorded, strict=True)
    return max((_relative_error(a, b) for a, b in pairs if a.is_floating_point() and a.numel()), default=0.0)


def _relative_error(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, relative to the largest value of the one."""
    return float((one - other).abs().max() / one.abs().max().clamp_min(1e-12))
