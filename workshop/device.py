"""The choice of the device to compute on."""

import torch

from workshop.errors import DeviceError


def choose_device(name: str | None = None) -> torch.device:
    """Return the device of a name; without a name, the best that this machine has: cuda, then mps, then cpu.

    Raises:
        DeviceError: this machine has no such device.
    """
    here = available_devices()
    if name is None:
        return torch.device(here[0])
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # torch finds out only at the first use
    except Exception as error:  # RuntimeError, AssertionError or NotImplementedError, depending on the kind of device
        raise DeviceError(f"there is no device {name!r} here; this machine has {', '.join(here)}") from error
    return device


def available_devices() -> list[str]:
    """Return the names of the devices that torch can use here, the best first; "cpu" is always the last."""
    devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    if torch.backends.mps.is_available():
        devices.append("mps")
    return [*devices, "cpu"]
