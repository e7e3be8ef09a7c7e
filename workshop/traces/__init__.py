"""Traces of torch.profiler: read, broken down, explained.

What notebooks use is imported when it is asked for: a command has no need of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from workshop.traces.decoding import TraceError
from workshop.traces.trace import Trace, read
from workshop.traces.trace_files import Traces, load

if TYPE_CHECKING:
    from workshop.traces.hta.analysis import TimeSeriesTypes, TraceAnalysis
    from workshop.traces.hta.trace_diff import DeviceType, LabeledTrace, TraceDiff

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
    return getattr(import_module(f"workshop.traces.hta.{module}"), name)
