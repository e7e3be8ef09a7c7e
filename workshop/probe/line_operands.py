"""What a line of the script reads and writes: the values of names, and what is kept of them to tell them apart."""

import ast
import random
import sys
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn

from workshop.probe.observations import ARRAYS

SAMPLE = 4096
"""The number of values, at most, that are kept of a tensor, beside the sum of all."""

FEW = 8
"""The entries of a container, at most, that are looked at."""

PLAIN = (bool, int, float, complex, str, bytes, type(None))
TEXTS = ("str", "bytes")
CONTAINERS = (list, tuple, deque, dict, set)
TENSORS = (torch.Tensor, nn.Parameter)

Variables: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The local variables, and the global ones."""


class KeptOperand(NamedTuple):
    """What is kept of an operand."""

    form: str
    size: int
    """In bytes."""
    length: int
    learned: bool
    memory: int
    digest: Any
    """Equal for equal values; tensors stay on their device. None of what cannot be looked at."""
    different: int = 0
    """How many of its rows differ; 0 where that is not known, or says nothing."""

    @property
    def facts(self) -> tuple[str, int, int, bool, int]:
        """What it is, without its values."""
        return self[:5]

    @property
    def value(self) -> object:
        """What equals that of an equal operand; of what cannot be looked at, nothing else does."""
        checksum = _checksum(self.digest)
        return object() if checksum is None else (self.form, checksum)


# The value of a name


def value_of(node: ast.expr, variables: Variables) -> Any:
    """Return the value of an expression that runs no code of the script's.

    Raises:
        LookupError: it has none, or it cannot be had without running code.
    """
    match node:
        case ast.Name():
            return next(each[node.id] for each in variables if node.id in each)
        case ast.Attribute():
            return _attribute(value_of(node.value, variables), node.attr)
        case ast.Subscript():
            whole, index = value_of(node.value, variables), _index(node.slice, variables)
            if _is_tensor(whole) or type(whole) in CONTAINERS or _is_array(whole) or _fields_of(whole):
                return whole[index]
    raise LookupError(ast.dump(node))


def _index(node: ast.expr, variables: Variables) -> Any:
    """Return an index of numbers and slices, which copies nothing."""
    match node:
        case ast.Tuple():
            return tuple(_index(each, variables) for each in node.elts)
        case ast.Slice():
            ends = (node.lower, node.upper, node.step)
            return slice(*(each and _index(each, variables) for each in ends))
        case ast.UnaryOp(op=ast.USub()):
            return -_index(node.operand, variables)
        case ast.BinOp(op=ast.Add()):
            return _index(node.left, variables) + _index(node.right, variables)
        case ast.BinOp(op=ast.Mult()):
            return _index(node.left, variables) * _index(node.right, variables)
    value = node.value if isinstance(node, ast.Constant) else value_of(node, variables)
    if type(value) in (int, str, slice, type(None), type(...)):
        return value
    raise LookupError(ast.dump(node))


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute that is an entry of an object: no property, and nothing that a `__getattr__` makes.

    That of a tensor is its gradient, or the tensor without it.
    """
    if _is_tensor(value) and (name == "data" or (name == "grad" and value.is_leaf)):
        return getattr(value, name)
    if name in (fields := _fields_of(value)):
        return tuple.__getitem__(value, fields.index(name))
    own = object.__getattribute__(value, "__dict__")
    if name in own:
        return own[name]
    for kind in ("_parameters", "_buffers", "_modules") if isinstance(value, nn.Module) else ():
        if name in own.get(kind, {}):
            return own[kind][name]
    found = next(vars(kind)[name] for kind in type(value).__mro__ if name in vars(kind))
    if type(found) in (*PLAIN, *CONTAINERS, *TENSORS) or _is_array(found):
        return found
    raise LookupError(name)


# What is kept of it


def kept(value: Any, deep: int = 2) -> KeptOperand | None:
    """Return what is kept of a value; None if it is no data."""
    kind = type(value)
    if _is_tensor(value):
        return _of_tensor(value)
    if _is_array(value):
        return _of_array(value)
    if kind in PLAIN:
        return KeptOperand(kind.__name__, len(value) if kind in (str, bytes) else 8, 0, False, 0, repr(value))
    if kind in CONTAINERS or _fields_of(value):
        return _of_container(value, deep)
    if isinstance(value, nn.Module):
        return KeptOperand(kind.__name__, 0, 0, next(value.parameters(), None) is not None, 0, None)
    if (state := _state(value)) is not None:
        return KeptOperand(kind.__name__, 0, 0, False, 0, state)
    return _of_other(value)


def _of_other(value: Any) -> KeptOperand | None:
    """Return the size of a picture of Pillow, or of a table of pandas; None of anything else."""
    kind, library = type(value).__name__, type(value).__module__.partition(".")[0]
    if library == "PIL" and hasattr(value, "getbands"):
        form = f"{value.mode} picture {value.width} x {value.height}"
        return KeptOperand(form, value.width * value.height * len(value.getbands()), 0, False, id(value), None)
    if library == "pandas" and kind in ("DataFrame", "Series"):
        form = f"{kind} {' x '.join(map(str, value.shape))}"
        return KeptOperand(form, 8 * value.size, len(value), False, id(value), None)
    return None


def _of_tensor(tensor: torch.Tensor) -> KeptOperand:
    plain = tensor.detach()
    try:
        memory, digest = plain.untyped_storage().data_ptr(), _digest(plain)
    except Exception:  # sparse tensors, those under vmap: they fail in many ways
        memory, digest = 0, None
    form = f"{str(plain.dtype).removeprefix('torch.')} [{', '.join(map(str, plain.shape))}]"
    length = plain.shape[0] if plain.ndim else 0
    size = min(plain.numel() * plain.element_size(), _held(plain))
    return KeptOperand(form, size, length, tensor.requires_grad, memory, digest, _different_rows(plain))


def _held(tensor: torch.Tensor) -> int:
    """Return the bytes that there are of it: fewer than its numbers take, if it is expanded."""
    try:
        return tensor.untyped_storage().nbytes()
    except Exception:  # it has no storage
        return tensor.numel() * tensor.element_size()


def _different_rows(tensor: torch.Tensor) -> int:
    """Return how many rows of numbers differ by more than rounding; 0 of few or many, or large, or not all finite.

    Rows that are the same have the same weighted sum, so they are neighbours in the order of these.
    """
    is_worth_it = tensor.device.type == "cpu" and tensor.is_floating_point() and tensor.layout is torch.strided
    if not is_worth_it or tensor.ndim < 2 or not 8 <= len(tensor) <= SAMPLE // 8 or tensor.numel() > 64 * SAMPLE:
        return 0
    rows = tensor.flatten(1).double()
    rows = rows[(rows @ torch.arange(1, rows.shape[1] + 1, dtype=torch.float64).sqrt()).argsort()]
    if not rows.isfinite().all():
        return 0
    apart = (rows[1:] - rows[:-1]).abs().amax(1)
    return 1 + int((apart > 1e-4 * rows[1:].abs().amax(1)).sum())


def _digest(tensor: torch.Tensor) -> Any:
    """Return the sum of a tensor and some of its values: of one on a device, as tensors there; else a checksum."""
    few = tensor
    while few.numel() > SAMPLE:
        longest = max(range(few.ndim), key=lambda each: few.shape[each])
        few = few[(*[slice(None)] * longest, slice(None, None, 2))]
    parts = [few.contiguous().clone().flatten().view(torch.uint8)] if few.numel() else []
    if tensor.is_contiguous() and tensor.numel() > SAMPLE:
        parts.append(tensor.sum(dtype=None if tensor.is_complex() else torch.float64)[None].view(torch.uint8))
    return _checksum(tuple(parts)) if tensor.device.type == "cpu" else tuple(parts)


def _checksum(digest: Any) -> Any:
    """Bring what is kept on a device here."""
    if isinstance(digest, tuple) and all(isinstance(each, torch.Tensor) for each in digest):
        return zlib.crc32(b"".join(each.cpu().numpy().tobytes() for each in digest))
    return tuple(map(_checksum, digest)) if isinstance(digest, tuple) else digest


def _is_tensor(value: Any) -> bool:
    """Whether it is a tensor, a parameter, or a picture or mask of torchvision: none whose class is the script's."""
    kind = type(value)
    return kind in TENSORS or (isinstance(value, torch.Tensor) and kind.__module__.startswith("torchvision."))


def _fields_of(value: Any) -> tuple[str, ...]:
    """Return the names of the entries of a named tuple; none for anything else."""
    return tuple(vars(type(value)).get("_fields", ())) if isinstance(value, tuple) else ()


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _of_array(array: Any) -> KeptOperand:
    base = array
    while _is_array(base.base):
        base = base.base
    form = f"{array.dtype} [{', '.join(map(str, array.shape))}]"
    digest = None if array.dtype.hasobject else _digest_of_array(array)
    length = array.shape[0] if array.ndim else 0
    return KeptOperand(form, array.nbytes, length, False, base.__array_interface__["data"][0], digest)


def _digest_of_array(array: Any) -> int:
    few = array
    while few.size > SAMPLE:
        longest = max(range(few.ndim), key=lambda each: few.shape[each])
        few = few[(*[slice(None)] * longest, slice(None, None, 2))]
    total = array.sum() if few is not array and array.dtype.kind in "biufc" else 0
    return zlib.crc32(few.tobytes() + repr(total).encode())


def _of_container(value: Any, deep: int) -> KeptOperand:
    """Return the length of a container, and what is kept of a few of its entries, evenly spread."""
    few = list(_some(value))
    parts = [kept(each, deep - 1) if deep else None for each in few]
    known = [each for each in parts if each is not None]
    size = sum(each.size for each in known if each.form not in TEXTS) * len(value) // max(len(few), 1)
    digests = tuple(each.digest if each else None for each in parts)
    digest = None if any(each is None for each in digests) else (len(value), *digests)
    form = f"{type(value).__name__} of {len(value)}{ARRAYS * (bool(few) and all(map(_is_array, few)))}"
    memory = known[0].memory if known else 0
    return KeptOperand(form, size, len(value), any(each.learned for each in known), memory, digest)


def _some(value: Any) -> Iterator[Any]:
    every = max(len(value) // FEW, 1)
    entries = value.values() if isinstance(value, dict) else value
    if isinstance(value, (list, tuple, deque)):
        yield from (value[at] for at in range(0, len(value), every))
    else:
        yield from (each for _, each in zip(range(FEW), entries, strict=False))


def _state(value: Any) -> int | None:
    """Return a checksum of the state of a random generator; None of anything else."""
    numpy = sys.modules.get("numpy")
    if isinstance(value, torch.Generator):
        return zlib.crc32(value.get_state().numpy().tobytes())
    if numpy is not None and type(value) is numpy.random.Generator:
        return zlib.crc32(repr(value.bit_generator.state).encode())
    return zlib.crc32(repr(value.getstate()).encode()) if type(value) is random.Random else None
