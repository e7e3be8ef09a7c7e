"""Starts the probe in a process, as its environment asks for; Python calls this before the script's first line.

What needs torch is imported as soon as the script has loaded torch.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from workshop.probe import earlier_cells, opened_files, wire
from workshop.probe.activity import ActivityListener, note_fault
from workshop.probe.connection import Connection, claim
from workshop.probe.event_file import EventFile
from workshop.probe.imports import ImportRedirect, after_import
from workshop.probe.internals import WORKER_MODULE
from workshop.probe.log import log
from workshop.probe.settings import (
    FIRST_STEP_VARIABLE,
    LINES_VARIABLE,
    NVTX_VARIABLE,
    PROBE_VARIABLE,
    PROFILER_VARIABLE,
    REDIRECT_VARIABLE,
    JudgedRun,
    ProbeConfig,
)

judge: Connection | None = None
"""The connection to the process that judges this script, in the process that has claimed it."""

memory: Any = None
"""What follows the tensors of this process, if it is asked for."""


def start() -> None:
    """Start whatever the environment asks for. A forked process inherits it, a spawned one comes here itself."""
    log(f"a Python starts: {' '.join(sys.orig_argv)[:200]}")
    if earlier_cells.VARIABLE in os.environ:
        return
    if REDIRECT_VARIABLE in os.environ:
        sys.meta_path.insert(0, ImportRedirect(wire.decode(os.environ[REDIRECT_VARIABLE])))
    if PROBE_VARIABLE in os.environ:
        config = wire.decode(os.environ[PROBE_VARIABLE])
        if config.judged:
            _judge(config, config.judged)
        else:
            _measure(config)
    if NVTX_VARIABLE in os.environ:
        _after("torch", lambda _: _probe("torch_profiler").mark_phases())
    if PROFILER_VARIABLE in os.environ:
        options = wire.decode(os.environ[PROFILER_VARIABLE])
        _after("torch", lambda _: _probe("torch_profiler").ScriptRecording(options).hooks.install(), options.folder)
    if FIRST_STEP_VARIABLE in os.environ:
        folder = os.environ[FIRST_STEP_VARIABLE]
        _after("torch", lambda torch: _probe("first_step").note_first_step(torch, folder))
    if LINES_VARIABLE in os.environ:
        # It needs more than the standard library and torch, and is no part of the probe.
        counter = import_module("workshop.line_counts.counter")
        counter.LineCounter(wire.decode(os.environ[LINES_VARIABLE])).start()


def _measure(config: ProbeConfig) -> None:
    """Watch the training in this process, if there is one, and the DataLoader's worker that it may be."""
    folder = config.folder
    if config.memory:
        _measure_memory(config)
        return
    _after("torch", lambda _: _probe("measured_training").measure(config), folder)
    _after(WORKER_MODULE, lambda module: _probe("stack_sampler").watch_workers(EventFile(folder), module), folder)
    _after(WORKER_MODULE, lambda module: _probe("worker_question").note_question(EventFile(folder), module), folder)


def _measure_memory(config: ProbeConfig) -> None:
    """Follow the tensors of this process, and watch the DataLoader's worker that it may be."""

    def begin(_: Any) -> None:
        global memory
        memory = _probe("memory.memory_meter").MemoryMeter(config)
        memory.install()

    def watch(module: Any) -> None:
        _probe("memory.worker_containers").watch_worker_containers(EventFile(config.folder), module)

    _after("torch", begin, config.folder)
    _after(WORKER_MODULE, watch, config.folder)


def _judge(config: ProbeConfig, judged: JudgedRun) -> None:
    """Watch what this process does, and, in the first process of the run, the training."""
    global judge
    folder = config.folder
    events = EventFile(folder)
    opened_files.watch_sleep()
    opened_files.watch_events()
    after_import("asyncio", opened_files.watch_asyncio)
    if judged.photos:
        opened_files.watch_photos(judged.photos, events)
        temporary = os.environ.get("TMPDIR", "/tmp")
        opened_files.watch_writes([folder, os.getcwd(), temporary], events)
    after_import("torchvision.io.image", opened_files.audit_read_file)
    _after("torchvision.transforms.v2", lambda v2: _probe("transforms").watch_transforms(v2, folder), folder)
    judge = claim(config)
    if judge:
        _after("torch", lambda _: _probe("evidence").EvidenceRecorder(config, judge, events).hooks.install(), folder)
    else:  # a training here is not judged, but it is seen; or it is a worker, which may be asked for seeded items
        _after("torch", lambda _: _watch(folder), folder)


def _watch(folder: str) -> None:
    addresses = _probe("item_addresses").Addresses(EventFile(folder), lambda: 0.0)
    _probe("hooks").TrainingHooks(ActivityListener(folder), addresses=addresses).install()


def _after(name: str, do: Callable[[Any], None], folder: str = "") -> None:
    """Call a function as soon as a module has run; what fails in it does not reach the script."""

    def try_it(module: Any) -> None:
        try:
            do(module)
        except Exception as error:
            note_fault(error, folder)

    after_import(name, try_it)


def _probe(name: str) -> Any:
    return import_module(f"workshop.probe.{name}")
