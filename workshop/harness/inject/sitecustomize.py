"""Python runs this file as it starts, because its folder is on PYTHONPATH: the way into every process of a script.

It must not keep another sitecustomize, such as that of a Linux distribution, from running.
"""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_others = [folder for folder in sys.path if os.path.abspath(folder or ".") != _here]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _spec and _spec.loader:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))

if "WORKSHOP_PROBE" in os.environ:
    from workshop.harness.probe import start

    start()

if "WORKSHOP_TORCH_PROFILER" in os.environ:
    from workshop.recording.torch_profiler import start as record

    record()

if "WORKSHOP_NVTX" in os.environ:
    from workshop.recording.nsys import start as mark

    mark()
