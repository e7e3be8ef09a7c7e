"""What the figures hold for."""

import os
import platform
from pathlib import Path

import torch


def machine() -> str:
    """What the times depend on, in one line."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # there is one on Linux only
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu = models[0] if models else platform.processor() or platform.machine()
    system = f"{platform.system()} {platform.release()}"
    return f"{cpu}, {os.cpu_count()} cores, {system}, Python {platform.python_version()}, torch {torch.__version__}"
