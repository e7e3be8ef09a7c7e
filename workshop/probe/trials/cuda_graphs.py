"""CUDA graphs: a pass of the model is recorded once, and then asked of the GPU with a single launch.

A copy of the model is recorded, on a stream of its own. A pass that waits for the GPU cannot be recorded, and the error
in the midst of a recording may be one of the whole process: so such waits are looked for beforehand.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, FirstLook, TriedCause
from workshop.probe.internals import has_compiled, tree_leaves
from workshop.probe.trials.copies import copied_model, ensure_free, forward_and_backward
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model

MIN_HEADROOM = 1.05
"""The speedup of a step, at least, that fewer launches can bring at most."""

WARM_UPS = 3
"""Passes before the recording, in which libraries choose algorithms and take what memory they need."""

WAITS = "synchronizing CUDA operation"
"""A part of what torch warns of where the host waits for the GPU."""


def is_launch_bound(look: FirstLook) -> bool:
    """Return whether fewer launches may save something on this device."""
    return look.circumstances.device == "cuda" and look.launch_headroom >= MIN_HEADROOM


@of_model(
    TriedCause(
        "cuda-graphs",
        "The model ({about}) is faster as a CUDA graph, if all batches have the same shapes: "
        "torch.cuda.make_graphed_callables, or torch.compile(model, mode='reduce-overhead').",
        CausePlace.OPTION,
        is_worth_it=is_launch_bound,
    )
)
def recorded_graph(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Forward and backward of a copy in one graph, with the same inputs in each pass."""
    tensors = [*model.parameters(), *(each for each in tree_leaves((inputs, options)) if torch.is_tensor(each))]
    if not all(each.is_cuda for each in tensors):
        raise NothingToTryError("not all of it is on a GPU")
    if has_compiled() or torch.cuda.graph.default_capture_stream or torch.cuda.is_current_stream_capturing():
        raise NothingToTryError("the script compiles or records graphs already")
    device = tensors[0].device
    as_it_is, other = copied_model(model), copied_model(model)
    yield lambda: forward_and_backward(as_it_is, inputs, options)
    ensure_free(torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device), device)
    graph = torch.cuda.CUDAGraph()
    try:
        result = _record(graph, lambda: forward_and_backward(other, inputs, options))

        def replay() -> object:
            graph.replay()
            return result

        yield replay
    finally:
        graph.reset()


def _record(graph: torch.cuda.CUDAGraph, run: Pass) -> object:
    """Record a pass, and return what its replays write to.

    Raises:
        RuntimeError: the pass waits for the GPU, or does something else that cannot be recorded.
    """
    stream, before = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                with _waits_raise():
                    run()
        torch.clear_autocast_cache()  # what was cast in a warm-up is no part of the graph
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            return run()
    except RuntimeError as error:
        raise error.__context__ or error from None  # to end a recording that has failed is another error
    finally:
        torch.cuda.set_stream(before)  # a recording that fails leaves its own behind
        torch.clear_autocast_cache()
        torch.cuda.synchronize()


@contextmanager
def _waits_raise() -> Iterator[None]:
    """Raise an error in the end if the host has waited for the GPU; torch only warns, as other threads may wait."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    if any(WAITS in str(each.message) for each in warned):
        raise RuntimeError("a pass waits for the GPU, as .item() does, or a copy from memory that is not pinned")
