"""Traces of torch.profiler: read, broken down, explained."""

from workshop.profiles.traces.analysis import TimeSeriesTypes, TraceAnalysis
from workshop.profiles.traces.decoding import TraceError
from workshop.profiles.traces.ranks import Traces, load
from workshop.profiles.traces.trace import Trace, read
from workshop.profiles.traces.trace_diff import DeviceType, LabeledTrace, TraceDiff

__all__ = [
    "DeviceType",
    "LabeledTrace",
    "TimeSeriesTypes",
    "Trace",
    "TraceAnalysis",
    "TraceDiff",
    "TraceError",
    "Traces",
    "load",
    "read",
]
