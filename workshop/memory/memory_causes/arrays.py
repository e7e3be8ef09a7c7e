"""Arrays that have more bytes than what is in them needs: a wide type, or windows that repeat each other."""

from collections.abc import Iterator

from workshop.memory.assignments import filled_at
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import HostObject, TensorKind

WIDE = "float64"
LARGE = 0.1
"""Batches are taken to be made of an array that a dataset has, or that is more than this share of all memory."""

COMPUTED = (TensorKind.BATCHES, TensorKind.PARAMETERS, TensorKind.ACTIVATIONS)
BYTES = {"float64": 8, "float32": 4, "uint8": 1}


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what a sample of each large array has shown, as it was when last seen."""
    arrays = [each for each in measured.record.last_host_objects if each.dtype]
    last = sorted(arrays, key=lambda each: -each.bytes)
    yield from (_windows(measured, each) for each in last if each.window)
    computes_in = _computes_in(measured)
    most = measured.host.most.together if measured.host.most else 0
    narrower = [
        (each, each.narrower or computes_in * (each.rounds_well and (each.of_dataset or each.bytes > LARGE * most)))
        for each in last
        if each.dtype == WIDE and not each.window
    ]
    if wide := [(each, to) for each, to in narrower if to]:
        yield _wide(measured, wide)


def _computes_in(measured: MeasuredMemory) -> str:
    """float32, if no batch, parameter or activation of the training is of a wider type; empty otherwise."""
    rows = [row for each in measured.record.training for row in (*each.at_peak, *each.at_end)]
    dtypes = {each.dtype for each in rows if each.kind in COMPUTED}
    return "float32" if dtypes and WIDE not in dtypes else ""


def _windows(measured: MeasuredMemory, array: HostObject) -> MemoryFinding:
    words = (
        f"{_named(array)} has windows that overlap: each is the one before, {array.shift} further on. "
        "Keep the series once, and cut a window where it is asked for, as in __getitem__, or let "
        "np.lib.stride_tricks.sliding_window_view show them."
    )
    size = round(array.bytes * (1 - array.shift / array.window))
    return _finding(measured, array, "windows-copied", size, words, "the bytes that repeat")


def _wide(measured: MeasuredMemory, arrays: list[tuple[HostObject, str]]) -> MemoryFinding:
    """All arrays that could be narrower, named by the largest."""
    array, narrower = arrays[0]
    values = "whole numbers up to 255" if narrower == "uint8" else "exact in float32, too"
    why = f"the values looked at are {values}" if array.narrower else "neither the batches nor the model are"
    make = f"Make it with dtype=np.{narrower}."
    if narrower == "uint8":
        make = "If all are, make it with dtype=np.uint8, else with np.float32."
    others = ", ".join(each.holder for each, _ in arrays[1:4])
    so_are = f" The same goes for {others}." if others else ""
    words = f"{_named(array)} is float64, and {why}. {make}{so_are}"
    size = sum(each.bytes * (1 - BYTES[to] / BYTES[WIDE]) for each, to in arrays)
    return _finding(measured, array, WIDE, round(size), words, "what narrower types would take less")


def _named(array: HostObject) -> str:
    return f"{array.holder} ({' x '.join(map(str, array.shape))})"


def _finding(
    measured: MeasuredMemory, array: HostObject, cause: str, size: int, words: str, basis: str
) -> MemoryFinding:
    function, file, line = filled_at(array.holder, array.holder_stack[0])
    most = measured.host.most
    return MemoryFinding(
        cause=cause,
        place="host",
        file=file,
        line=line or None,
        function=function,
        holder=array.holder,
        gain_bytes=size,
        share=size / max(most.together if most else 0, 1),
        measured=True,
        bytes_a_step=0.0,
        words=words,
        basis=f"counted: {basis}, of what is in memory",
    )
