"""Traces what a CUDA device does during an epoch, and which calls launched it."""

import os

from torch.profiler import ProfilerActivity, profile

from workshop.probe.internals import profiler_settings


def start_copy_trace() -> profile:
    """Begin to trace CUDA activity in this process."""
    trace = profile(activities=[ProfilerActivity.CUDA], experimental_config=profiler_settings())
    trace.start()
    return trace


def end_copy_trace(trace: profile, folder: str) -> str:
    """End a trace and write it into a folder; return the path of the file, which torch.profiler's traces are like."""
    trace.stop()
    path = os.path.join(folder, f"{os.getpid()}-copies.json")
    trace.export_chrome_trace(path)
    return path
