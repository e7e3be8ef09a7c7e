"""What the figures hold for."""

import os
import platform

import torch

from workshop.runs.machine import processor


def machine() -> str:
    """What the times depend on, in one line."""
    cpu, system = processor(), f"{platform.system()} {platform.release()}"
    return f"{cpu}, {os.cpu_count()} cores, {system}, Python {platform.python_version()}, torch {torch.__version__}"
