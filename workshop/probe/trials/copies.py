"""Copies of models and optimizers, on which something can be tried without changing the training, and room for them.

A trial must never be what the script runs out of memory for.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.internals import all_hooks, tree_leaves, tree_map
from workshop.probe.own_limits import free_in_groups
from workshop.probe.trials.trial_race import Pass

T = TypeVar("T")


def of_one_process(model: nn.Module) -> nn.Module:
    """Return the model without what averages its gradients.

    Raises:
        RuntimeError: there are other ranks, which would not take part in the trial at the same time.
    """
    if (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1
    ):
        raise RuntimeError("several processes may take part in a pass of this model")
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


def copied_arguments(inputs: Any, options: Any) -> Any:
    """Return copies of the arguments of a call, apart from any graph."""
    return tree_map(
        lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else copy.deepcopy(leaf), (inputs, options)
    )


def copied_call(model: nn.Module, inputs: Any, options: Any, times: float = 4) -> tuple[nn.Module, Any, Any]:
    """Return copies of a model, as one process has it, and of the arguments of a call.

    There must be memory for them, with gradients and what passes make: so many times that of the parameters.
    """
    ensure_room(model.parameters(), times)
    given, named = copied_arguments(inputs, options)
    return copied_model(of_one_process(model)), given, named


def copied_model(model: nn.Module) -> nn.Module:
    """Copy a model without the hooks of its modules, which may note what passes."""
    copied = copy.deepcopy(model)
    for each in copied.modules():
        drop_hooks(each)
    return copied


def drop_hooks(module: nn.Module) -> None:
    """Remove the hooks of a module."""
    for each in all_hooks(module):
        each.clear()


def copied_optimizer(
    optimizer: Optimizer, parameters: Mapping[nn.Parameter, nn.Parameter], kind: type[Optimizer] | None = None
) -> Optimizer:
    """Copy an optimizer with its state, for copies of some of its parameters; the others are left out.

    Args:
        optimizer: the one of the training.
        parameters: the copies, by the originals.
        kind: make an optimizer of this class, without a state, in place of a copy.
    """
    groups = [
        {**group, "params": [parameters[each] for each in group["params"] if each in parameters]}
        for group in optimizer.param_groups
    ]
    groups = [group for group in groups if group["params"]]
    if kind is not None:
        return kind(
            [{name: group[name] for name in ("params", "lr", "betas", "eps") if name in group} for group in groups]
        )
    copied = copy.copy(optimizer)
    copied.param_groups = groups
    copied.state = defaultdict(
        dict, {parameters[each]: copy.deepcopy(state) for each, state in optimizer.state.items() if each in parameters}
    )
    return copied


@contextmanager
def one_thread() -> Iterator[None]:
    """Let operators use one thread: small ones use no more, and others would only be waited for on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def forward_and_backward(model: nn.Module, inputs: Any, options: Any) -> torch.Tensor:
    """Forward, and backward from the sum of all that comes out; return all of that in one row, as float32."""
    outputs = _trained(model(*inputs, **options))
    sum(each.sum() for each in outputs).backward()
    model.zero_grad()
    return torch.cat([each.detach().flatten().float() for each in outputs])


def with_setting(
    model: nn.Module, inputs: Any, options: Any, set_to: Callable[[T], object], before: T, after: T
) -> Iterator[Pass]:
    """Yield passes of a copy with a setting of the whole process as it is, and with another value; put it back."""
    model = copied_model(model)

    def run(value: T) -> torch.Tensor:
        set_to(value)
        return forward_and_backward(model, inputs, options)

    try:
        yield lambda: run(before)
        yield lambda: run(after)
    finally:
        set_to(before)


def sum_of_trained(output: Any) -> torch.Tensor:
    """Return the sum of all tensors of an output that have a gradient."""
    return sum(each.sum() for each in _trained(output))


def _trained(output: Any) -> list[torch.Tensor]:
    leaves = tree_leaves(output)
    leaves += tree_leaves(vars(output)) if hasattr(output, "__dict__") and not isinstance(output, torch.Tensor) else []
    return [each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad]


def ensure_room(tensors: Iterable[torch.Tensor], copies: float) -> None:
    """Check that there is room for so many copies of some tensors, on the device of each.

    Raises:
        MemoryError: there is not.
    """
    needed: dict[torch.device, float] = {}
    for each in tensors:
        needed[each.device] = needed.get(each.device, 0.0) + copies * each.numel() * each.element_size()
    for device, size in needed.items():
        ensure_free(size, device)


def ensure_free(size: float, device: torch.device) -> None:
    """Check that there is room for so many bytes on a device.

    Raises:
        MemoryError: there is not.
    """
    free = _free_bytes(device)
    if free is not None and size > free / 2:  # the script may need more, too
        raise MemoryError(f"copies would take {size / 1e9:.1f} GB, and {free / 1e9:.1f} are free")


def _free_bytes(device: torch.device) -> int | None:
    """Return the free memory of a device in bytes; None if it is not known."""
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    sizes = []
    with suppress(OSError, ValueError, IndexError):
        line = next(each for each in Path("/proc/meminfo").read_text().splitlines() if each.startswith("MemAvailable"))
        sizes.append(int(line.split()[1]) * 1024)
    return min((each for each in (*sizes, free_in_groups()) if each is not None), default=None)
