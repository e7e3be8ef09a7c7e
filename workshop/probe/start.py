"""Starts the probe in a process, as its environment asks for; Python calls this before the script's first line.

What needs torch is imported as soon as the script has loaded torch.
"""

import os
from importlib import import_module
from typing import Any

from workshop.probe import file_writes, photo_reads, wire
from workshop.probe.after_import import after_import
from workshop.probe.connection import Connection, claim, events_folder, rank_of
from workshop.probe.event_file import EventFile
from workshop.probe.settings import (
    FIRST_STEP_VARIABLE,
    LINES_VARIABLE,
    NVTX_VARIABLE,
    PROBE_VARIABLE,
    PROFILER_VARIABLE,
    ProbeConfig,
)

parent: Connection | None = None
"""The connection to the process that watches this script, in the process that has claimed it."""


def start() -> None:
    """Start whatever the environment asks for. A forked process inherits it, a spawned one comes here itself."""
    if PROBE_VARIABLE in os.environ:
        _watch(wire.decode(os.environ[PROBE_VARIABLE]))
    if NVTX_VARIABLE in os.environ:
        after_import("torch", lambda _: _probe("nvtx_ranges").mark_phases())
    if PROFILER_VARIABLE in os.environ:
        options = wire.decode(os.environ[PROFILER_VARIABLE])
        after_import("torch", lambda _: _probe("torch_profiler").UnaskedRecording(options).hooks.install())
    if FIRST_STEP_VARIABLE in os.environ:
        folder = os.environ[FIRST_STEP_VARIABLE]
        after_import("torch", lambda torch: _probe("first_step").note_first_step(torch, folder))
    if LINES_VARIABLE in os.environ:
        # It needs more than the standard library and torch, and is no part of the probe.
        counter = import_module("workshop.line_counts.counter")
        counter.LineCounter(wire.decode(os.environ[LINES_VARIABLE])).start()


def _watch(config: ProbeConfig) -> None:
    """Watch what this process does, and, in the first process of the run, the training."""
    global parent
    events = EventFile(events_folder(config))
    if config.judged:
        photo_reads.watch_sleep()
        photo_reads.watch_events()
        after_import("asyncio", photo_reads.watch_asyncio)
        if config.judged.photos:
            photo_reads.watch_photos(config.judged.photos, events)
            temporary = os.environ.get("TMPDIR", "/tmp")
            file_writes.watch_writes([config.folder, os.getcwd(), temporary], events)
        after_import("torchvision.io.image", photo_reads.audit_read_file)
        after_import("torchvision.transforms.v2", lambda v2: _probe("transforms").watch_transforms(v2, events))
    parent = claim(config)
    if parent and config.judged:
        after_import("torch", lambda _: _probe("evidence").EvidenceKeeper(config, parent, events).hooks.install())
    elif parent:
        after_import("torch", lambda _: _probe("step_meter").StepMeter(parent, events, rank_of(config) or 0).install())
    if not config.judged:
        after_import(
            "torch.utils.data._utils.worker", lambda module: _probe("stack_sampler").watch_workers(events, module)
        )


def _probe(name: str) -> Any:
    return import_module(f"workshop.probe.{name}")
