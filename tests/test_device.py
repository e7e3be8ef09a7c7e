"""Which device to compute on."""

import pytest
import torch

from workshop.device import available_devices, choose_device
from workshop.errors import DeviceError


def test_the_default_is_the_best_device_and_the_cpu_is_always_there() -> None:
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert choose_device().type == best
    assert available_devices()[-1] == "cpu"
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda:99", "gpu", ""])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(DeviceError, match=f"no device '{name}' here; this machine has .*cpu"):
        choose_device(name)
