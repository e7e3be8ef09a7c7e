"""The settings of a DataLoader are declared as torch has them."""

import inspect

import pytest
from torch.utils.data import DataLoader

from workshop.probe.loader_settings import LoaderSettings
from workshop.tuning.loader_edit import ARGUMENTS


def test_arguments_stand_where_torch_has_them() -> None:
    places = list(inspect.signature(DataLoader).parameters)
    for setting in ARGUMENTS:
        assert setting.argument in places
        assert setting.place is None or places[setting.place] == setting.argument


@pytest.mark.parametrize("workers", [0, 1])
def test_defaults_are_those_of_torch(workers: int) -> None:
    loader = DataLoader([1], num_workers=workers)
    assert LoaderSettings.of(loader) == LoaderSettings(workers)
    LoaderSettings(workers).give_to(loader)
    assert LoaderSettings.of(loader) == LoaderSettings(workers)
