"""Python runs this file as it starts, because its folder is on PYTHONPATH: so the probe gets into every process.

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

try:
    from workshop.probe.start import start

    start()
except Exception as error:  # another Python, which has no workshop, runs on without it
    if os.environ.get("WORKSHOP_LOG"):
        print(f"workshop [{os.getpid()}] nothing is seen of {sys.executable}: {error}", file=sys.stderr)
