"""Traces of torch.profiler: read, broken down, explained."""

from workshop.profiles.traces.analysis import TimeSeriesTypes, TraceAnalysis
from workshop.profiles.traces.decoding import TraceError
from workshop.profiles.traces.ranks import Traces, load
from workshop.profiles.traces.trace import Trace, read

__all__ = ["TimeSeriesTypes", "Trace", "TraceAnalysis", "TraceError", "Traces", "load", "read"]
