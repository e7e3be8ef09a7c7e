"""What the workshop uses of torch and Python that is private to them; nothing here loads torch by itself."""

import copy
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate, chain, repeat
from operator import attrgetter, call, itemgetter
from types import CodeType, FrameType
from typing import Any, NamedTuple

from workshop.probe.garbage import no_collections
from workshop.probe.replaced_function import replace_function

WORKER_MODULE, WORKER_LOOP = "torch.utils.data._utils.worker", "_worker_loop"
"""The module and the name of the function that a DataLoader's worker runs."""

SIGNAL_MODULE, SET_SIGNALS = "torch.utils.data._utils.signal_handling", "_set_worker_signal_handlers"
"""The module and the name of the function by which a worker sets what its signals do."""

FETCH_PATH, LOADER_PATH = "torch/utils/data/_utils/fetch.py", "torch/utils/data/dataloader.py"
"""Where torch loads a batch, and where it starts and ends workers."""

STARTS_OR_ENDS_WORKERS = ("__init__", "_shutdown_workers", "__del__")
"""The functions of `LOADER_PATH` that do so."""

SHARING = ("_share_fd_cpu_", "_share_filename_cpu_")
"""The methods of `torch.UntypedStorage` that move it to shared memory."""


class Internal(NamedTuple):
    """Something private, and what is lost when an upgrade has moved it."""

    module: str
    name: str
    """The name in the module; what an object has is behind dots, and what its constructor sets is in its source."""
    lost: str


_LOADER = "torch.utils.data.dataloader"
INTERNALS = (
    Internal(_LOADER, "_SingleProcessDataLoaderIter.__next__", "batches loaded without workers are not seen"),
    Internal(_LOADER, "_MultiProcessingDataLoaderIter.__next__", "batches of workers are not seen"),
    Internal(_LOADER, "_BaseDataLoaderIter.__next__", "--seconds does not count from the second batch"),
    Internal(_LOADER, "_BaseDataLoaderIter._num_yielded", "epochs from memory do not know where they end"),
    Internal(_LOADER, "_BaseDataLoaderIter._next_index", "which items a step is taken with is not known"),
    Internal(_LOADER, "_MultiProcessingDataLoaderIter._send_idx", "the items of a second epoch are taken for others"),
    Internal(_LOADER, "DataLoader._iterator", "copies of a DataLoader share its workers"),
    Internal(_LOADER, "_MultiProcessingDataLoaderIter._shutdown_workers", "the time to end workers is not told"),
    Internal(WORKER_MODULE, WORKER_LOOP, "workers are not sampled"),
    Internal(SIGNAL_MODULE, SET_SIGNALS, "lines of workers that persist are lost in the end"),
    Internal("torch.utils.data._utils.fetch", "_MapDatasetFetcher", "what workers load is not told from their waits"),
    Internal("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.step", "torch.compile is not tried"),
    Internal("torch.nn", "Module._compiled_call_impl", "modules that are compiled in place are not seen"),
    Internal("torch.nn", "Module._forward_hooks", "copies of a model keep the hooks; TorchScript compiles them"),
    Internal("torch.nn", "Module._forward_pre_hooks", "copies of a model keep the hooks; TorchScript compiles them"),
    Internal("torch.nn", "Module._backward_hooks", "copies of a model keep the hooks"),
    Internal("torch.nn", "Module._backward_pre_hooks", "copies of a model keep the hooks"),
    Internal("torch._dynamo", "OptimizedModule", "compiled models are taken for others"),
    Internal("torch._dynamo.utils", "counters", "that compiled code draws other random numbers is not known"),
    Internal("torch._dynamo.utils", "get_compilation_metrics", "what is compiled again and again is not told"),
    Internal("torch._dynamo.utils", "graph_break_reasons", "where compiled code is left is not told"),
    Internal("torch._subclasses.functional_tensor", "FunctionalTensor", "backward passes that are only traced count"),
    Internal("torch._C._functorch", "peek_interpreter_stack", "the probe fails in what torch.func transforms"),
    Internal("torch._C", "TensorBase.grad", "gradients that nobody uses are not found"),
    Internal("torch._inductor.utils", "fresh_inductor_cache", "torch.compile is not tried"),
    Internal("torch.utils._pytree", "tree_map", "batches are not copied"),
    Internal("torch.utils._pytree", "register_pytree_node", "what is in dataclasses is not seen"),
    Internal("torch.utils._pytree", "GetAttrKey", "what is in dataclasses is not seen"),
    Internal("torch.utils._pytree", "tree_leaves", "batches are not counted"),
    Internal("torch.utils._pytree", "tree_flatten", "a step is not taken again with its batch"),
    Internal("torch.utils._pytree", "tree_map_with_path", "a step is not taken again with its batch"),
    Internal("torch.profiler", "_ExperimentalConfig", "a trace does not tell which stream waits for which event"),
    Internal("torch.utils._python_dispatch", "TorchDispatchMode", "tensors are not followed"),
    Internal("torch.utils._python_dispatch", "_get_current_dispatch_mode", "tensors are not followed"),
    Internal("torch._C._autograd", "SavedTensor.data", "activations count as others"),
    *(Internal("torch", f"UntypedStorage.{name}", "what is sent to spawned workers counts twice") for name in SHARING),
    Internal("torch._C._profiler", "_EventType.Allocation", "what operators allocate inside is not known"),
    Internal("torch._C._profiler", "_EventType.PyCall", "before torch 2.14, only the functions of calls are known"),
    Internal("torch._C._profiler", "_EventType.PyCCall", "before torch 2.14, only the functions of calls are known"),
    Internal("torch.autograd", "_profiler_enabled", "what operators allocate inside is not known"),
    Internal("torch._C._autograd", "_KinetoEvent.start_ns", "for how long operators compute is not known"),
    Internal("torch.utils.flop_counter", "flop_registry", "floating-point operations are not counted"),
    Internal("sys", "_current_frames", "no stack is sampled"),
    Internal("sys", "_getframe", "the lines that make DataLoaders and settings are not known"),
)


def loader_iterators() -> tuple[Any, Any, Any]:
    """Return the classes of a DataLoader's iterators: that of any, without workers, and with them."""
    from torch.utils.data import dataloader as module

    return module._BaseDataLoaderIter, module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter


def batches_yielded(iterator: Any) -> int:
    """Return how many batches an iterator of a DataLoader has handed out in this epoch."""
    number: int = iterator._num_yielded
    return number


def batches_asked(iterator: Any) -> int | None:
    """Return how many batches an iterator had asked workers for in this epoch; None for one without workers."""
    return getattr(iterator, "_send_idx", None)


def fetcher_class() -> Any:
    """Return the class that loads the items of a batch, given their indexes."""
    from torch.utils.data._utils import fetch

    return fetch._MapDatasetFetcher


def drop_iterator(loader: Any) -> None:
    """Let a copy of a DataLoader keep no workers alive."""
    loader.__dict__["_iterator"] = None


def compiled_call(module: Any) -> Callable[..., Any] | None:
    """Return what `module.compile()` has put in place of a call; None if it was not called."""
    call: Callable[..., Any] | None = module._compiled_call_impl
    return call


def set_compiled_call(module: Any, call: Callable[..., Any]) -> None:
    """Put something else in place of a call."""
    module._compiled_call_impl = call


def is_compiled(module: Any) -> bool:
    """Return whether torch.compile, or `module.compile()`, has made a module."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    return compiled_call(module) is not None or bool(dynamo and isinstance(module, dynamo.OptimizedModule))


def has_compiled() -> bool:
    """Return whether torch.compile has compiled anything in this process."""
    module = sys.modules.get("torch._dynamo.utils")
    return bool(module and module.counters["frames"].get("ok"))


def compilations() -> tuple[list[Any], list[Any]]:
    """Return what torch.compile notes of the last compilations, and of where it has left compiled code."""
    module: Any = sys.modules.get("torch._dynamo.utils")
    return (module.get_compilation_metrics(), module.graph_break_reasons) if module else ([], [])


def forget_compiled() -> None:
    """Leave no trace of what was compiled in this process."""
    import torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@contextmanager
def traced_with(check: Callable[[], None]) -> Iterator[None]:
    """Call a function before each instruction that torch.compile traces: what it raises ends the compilation."""
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    original = InstructionTranslatorBase.step

    def step(self: Any) -> Any:
        check()
        return original(self)

    put_back = replace_function(InstructionTranslatorBase, "step", step)
    try:
        yield
    finally:
        put_back()


def plain_gradient() -> Any:
    """Return the descriptor by which torch reads and sets the gradient of a tensor."""
    import torch

    return torch._C.TensorBase.grad


def is_transformed() -> bool:
    """Return whether this is called inside a transform of torch.func, where tensors have no values of their own."""
    import torch

    return torch._C._functorch.peek_interpreter_stack() is not None


def forward_hooks(module: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the hooks before and after a module's forward."""
    return module._forward_pre_hooks, module._forward_hooks


def all_hooks(module: Any) -> tuple[dict[int, Any], ...]:
    """Return the hooks before and after a module's forward, and those of its backward pass."""
    return *forward_hooks(module), module._backward_pre_hooks, module._backward_hooks


def is_traced(tensor: Any) -> bool:
    """Return whether torch.compile is tracing, and this stands for a tensor."""
    module: Any = sys.modules.get("torch._subclasses.functional_tensor")
    return module is not None and isinstance(tensor, module.FunctionalTensor)


def tree_map(change: Callable[[Any], Any], tree: Any) -> Any:
    """Return a copy of what may be a list, a dict, or such of such, with something made of each thing in it.

    Dataclasses are such, too.
    """
    from torch.utils import _pytree

    return _pytree.tree_map(change, _opened(tree))


def tree_leaves(tree: Any) -> list[Any]:
    """Return each thing in what may be a list, a dict, or such of such."""
    from torch.utils import _pytree

    return _pytree.tree_leaves(_opened(tree))


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return each thing in what may be a list, a dict, or such of such, and where in it they are."""
    from torch.utils import _pytree

    return _pytree.tree_flatten(_opened(tree))


class _Fields:
    """In place of a dataclass, which torch would take for one thing: its fields are found."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner


def _opened(tree: Any) -> Any:
    """Return a tree in which torch finds what is in dataclasses, and from which it makes them anew."""
    from torch.utils import _pytree

    if not any(map(_is_data, _pytree.tree_leaves(tree))):
        return tree  # as nearly always: nothing is made anew
    _tell_of_fields()
    return _pytree.tree_map(lambda leaf: _Fields(leaf) if _is_data(leaf) else leaf, tree)


def _is_data(leaf: Any) -> bool:
    is_made = dataclasses.is_dataclass(leaf) and not isinstance(leaf, type | dict)
    return is_made and any(hasattr(leaf, field.name) for field in dataclasses.fields(leaf))


@cache
def _tell_of_fields() -> None:
    """Tell torch of `_Fields` alone: of a class of the script, only the script may."""
    from torch.utils import _pytree

    def fields(of: _Fields) -> dict[str, Any]:
        names = (field.name for field in dataclasses.fields(of.owner))
        return {name: _opened(getattr(of.owner, name)) for name in names if hasattr(of.owner, name)}

    def with_names(of: _Fields) -> Any:
        found = fields(of)
        return [(_pytree.GetAttrKey(name), value) for name, value in found.items()], (of.owner, list(found))

    def flatten(of: _Fields) -> Any:
        found = fields(of)
        return list(found.values()), (of.owner, list(found))

    def put_back(values: Any, context: Any) -> Any:
        owner, names = context
        made = copy.copy(owner)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(made, name, value)
        return made

    _pytree.register_pytree_node(_Fields, flatten, put_back, flatten_with_keys_fn=with_names)


def names_of(places: Any) -> list[str]:
    """Return a text for each of the places that `tree_flatten` returns, as `tree_map_with_names` has it."""
    from torch.utils import _pytree

    names: list[str] = []
    tree_map_with_names(lambda name, _: names.append(name), _pytree.tree_unflatten([None] * places.num_leaves, places))
    return names


def tree_map_with_names(change: Callable[[str, Any], Any], tree: Any) -> Any:
    """Return a copy as `tree_map` does, with something made of each thing and of a text that says where it is."""
    from torch.utils import _pytree

    return _pytree.tree_map_with_path(lambda path, leaf: change(_pytree.keystr(path), leaf), _opened(tree))


def profiler_settings() -> Any:
    """Return torch.profiler's settings with which a trace tells which stream waits for which event."""
    import torch

    return torch.profiler._ExperimentalConfig(enable_cuda_sync_events=True)


def frames_of(thread: int) -> Iterator[FrameType]:
    """Yield the frames of another thread, innermost first; none if there is no such thread.

    A search for garbage calls finalizers, which may let go of the interpreter's lock. Then the thread goes on, and a
    frame that is just being read ends: Python 3.11 crashes. Up to 3.12, it may also wait for itself (cpython#106883).
    """
    with no_collections():
        frame = sys._current_frames().get(thread)
        while frame is not None:
            yield frame
            frame = frame.f_back


_SITE = attrgetter("f_code", "f_lasti")


def sites_of(thread: int) -> list[tuple[CodeType, int]]:
    """Return where another thread is, by the code and the instruction of its frames, innermost first; else nothing.

    One call of C code reads all of them, in which that thread cannot go on: its frames would be of different moments.
    """
    found: list[tuple[CodeType, int]] = []
    innermost = map(itemgetter(thread), map(call, (sys._current_frames,)))
    with no_collections(), suppress(KeyError, AttributeError):  # there is no such thread; behind the last frame is None
        found.extend(map(_SITE, accumulate(chain(innermost, repeat("f_back")), getattr)))
    return found


def frame_above(skipped: int) -> FrameType:
    """Return the frame of the caller, or of one that has called it."""
    return sys._getframe(skipped + 1)


def worker_argument(function: Callable[..., Any], name: str, args: Any, options: Any, default: Any) -> Any:
    """Return an argument of a call of the worker loop by its name; the default if there is none of that name."""
    try:
        return inspect.signature(function).bind(*args, **options).arguments.get(name, default)
    except (TypeError, ValueError):
        return default


def node_at_work() -> Any:
    """Return the node of a graph whose backward pass runs in this thread; None outside of one."""
    from torch import _C

    return _C._current_autograd_node()


def newest_sequence_number() -> int:
    """Return the number of the node that was made last in this thread."""
    from torch import autograd

    number: int = autograd._get_sequence_nr() - 1
    return number


def is_innermost_mode(mode: Any) -> bool:
    """Return whether a dispatch mode was entered last, so that it can be left."""
    from torch.utils import _python_dispatch

    return _python_dispatch._get_current_dispatch_mode() is mode


def can_leave(mode: Any, was_inference: bool) -> bool:
    """Return whether a dispatch mode can be left here.

    An inference mode ends with the dispatch keys that it began with. It would bring back that of a mode which is left
    inside; operators without tensors fail then, for there is no such mode.

    Args:
        mode: the mode.
        was_inference: whether it was entered in an inference mode.
    """
    import torch

    return is_innermost_mode(mode) and (was_inference or not torch.is_inference_mode_enabled())


def saved_tensors(node: Any) -> list[Any]:
    """Return the tensors that a node of a graph keeps for its backward pass, but not those that hooks have packed.

    Reading them otherwise would call the hooks: a checkpoint would compute its forward pass again.
    """
    found = []
    try:
        for name in _saved_names(node.__class__):
            kept = getattr(node, name, None)
            several = kept if isinstance(kept, (tuple, list)) else (kept,)
            found += [None if each is None else each.data for each in several]
    except RuntimeError:  # the pass is over, and they are freed
        return []
    return found


@cache
def _saved_names(kind: type) -> list[str]:
    return [name for name in dir(kind) if name.startswith("_raw_saved_")]


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a frame; the dict in which Python before 3.13 would keep them alive is emptied."""
    own = frame.f_locals
    variables = dict(own)
    is_ours = sys.getrefcount(own) <= 3  # the frame, this variable and the question; else the script has it, too
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED and is_ours:
        own.clear()
    return variables


def sequence_number(node: Any) -> int:
    """Return the number of a node of a graph: later ones have higher numbers; 0 for one that has none."""
    number: int = node._sequence_nr()
    return 0 if number > 1 << 62 else number


def dataset_of_worker(function: Callable[..., Any], args: Any, options: Any) -> Any:
    """Return the dataset that a worker loop is called with, as it is or in a list; None if there is none."""
    held = worker_argument(function, "dataset_holder", args, options, None)
    return held[0] if isinstance(held, list) and held else worker_argument(function, "dataset", args, options, None)


def allocations_of(results: Any) -> Iterator[tuple[int, int, int]]:
    """Yield the time in ns, the address and the bytes of each event of the CPU's allocator that a profiler has seen."""
    import torch

    ahead = [*results.experimental_event_tree()]
    while ahead:
        event = ahead.pop()
        ahead += event.children
        if event.tag == torch._C._profiler._EventType.Allocation and event.extra_fields.device.type == "cpu":
            yield event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size


def python_calls_of(results: Any, mark: str) -> Iterator[tuple[int, str, int]]:
    """Yield the time in ns of each call in Python that a profiler has seen, and the file and the line of its caller.

    Of a mark, a range of that name, the file is its name. Since torch 2.14, these lines are in the trace.
    """
    import torch

    calls = torch._C._profiler._EventType.PyCall, torch._C._profiler._EventType.PyCCall
    ahead = [*results.experimental_event_tree()]
    while ahead:
        event = ahead.pop()
        ahead += event.children
        if event.tag in calls:
            yield event.start_time_ns, event.extra_fields.caller.file_name, event.extra_fields.caller.line_number
        elif event.name == mark:
            yield event.start_time_ns, mark, 0


def profiled_events(profiler: Any) -> tuple[list[tuple[str, int, int, int]], list[tuple[int, int]]]:
    """Return what torch.profiler has seen, with beginning and end in ns of the system's clock.

    Of the CPU, the names and the threads are returned, too; of a device, what it has done but copies from and to the
    CPU. The ranges that a script names are in both.
    """
    import torch

    events = profiler.profiler.kineto_results.events()
    spans = [(each.name(), each.start_ns(), each.start_ns() + each.duration_ns()) for each in events]
    is_cpu = [each.device_type() == torch.autograd.DeviceType.CPU for each in events]
    on_cpu = [
        (*span, each.start_thread_id()) for span, each, is_here in zip(spans, events, is_cpu, strict=True) if is_here
    ]
    ranges = {name for name, *_ in on_cpu}
    copies = "HtoD", "DtoH"
    on_device = [
        (began, ended)
        for (name, began, ended), is_here in zip(spans, is_cpu, strict=True)
        if not is_here and name not in ranges and not any(each in name for each in copies)
    ]
    return on_cpu, on_device
