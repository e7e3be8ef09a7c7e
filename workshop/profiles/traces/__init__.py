"""Traces of torch.profiler: read, broken down, explained.

What notebooks use is imported when it is asked for: a command has no need of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from workshop.profiles.traces.decoding import TraceError
from workshop.profiles.traces.ranks import Traces, load
from workshop.profiles.traces.trace import Trace, read

if TYPE_CHECKING:
    from workshop.profiles.traces.hta.analysis import TimeSeriesTypes, TraceAnalysis
    from workshop.profiles.traces.hta.trace_diff import DeviceType, LabeledTrace, TraceDiff

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "analysis" if name in ("TraceAnalysis", "TimeSeriesTypes") else "trace_diff"
    return getattr(import_module(f"workshop.profiles.traces.hta.{module}"), name)
