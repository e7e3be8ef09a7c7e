"""The NVIDIA GPUs of this machine."""

import contextlib
import io
from typing import Any

import nvitop


def devices() -> list[Any]:
    """Return the GPUs as nvitop knows them; without an NVIDIA driver there are none."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # what NVML has to say about that is of no use here
            return list(nvitop.Device.all())
    except nvitop.NVMLError:
        return []
