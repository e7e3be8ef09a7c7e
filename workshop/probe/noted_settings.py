"""Notes where a script makes its DataLoaders, and where it calls what decides how everything is computed."""

import itertools
import os
from collections.abc import Callable
from types import CodeType
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import nn
from torch.utils.data import DataLoader, get_worker_info

from workshop.probe.event_file import EventFile
from workshop.probe.internals import WORKER_LOOP, frame_above
from workshop.probe.observations import LoaderMade, SettingMade
from workshop.probe.replaced_function import replace_function
from workshop.probe.stack_sampler import stack_here

PROBE = os.path.dirname(__file__)

_NUMBER, _SITE = "_workshop_number", "_workshop_site"

_made: WeakValueDictionary[int, DataLoader[Any]] = WeakValueDictionary()


def loader_number(loader: DataLoader[Any]) -> int:
    """Return the number that a DataLoader was given as it was made; -1 for none."""
    number: int = loader.__dict__.get(_NUMBER, -1)
    return number


def loader_site(loader: DataLoader[Any]) -> object:
    """Return where a DataLoader was made."""
    return loader.__dict__.get(_SITE, id(loader))


def is_there(number: int) -> bool:
    """Return whether the script still holds the DataLoader of this number."""
    return number in _made


def note_settings(events: EventFile) -> None:
    """Wrap the functions whose calls are noted, in this process and in those forked from it, but not in workers."""
    numbers, seen = itertools.count(), set[tuple[CodeType, int]]()

    def note_loader(loader: DataLoader[Any], *_: Any, **__: Any) -> None:
        loader.__dict__[_NUMBER] = next(numbers)
        _made[loader_number(loader)] = loader
        if get_worker_info() is None:
            loader.__dict__[_SITE] = stack_here(2)
            events.write(LoaderMade, loader=loader_number(loader), stack=loader.__dict__[_SITE])

    def note_setting(function: str) -> Callable[..., None]:
        def note(*args: Any, **options: Any) -> None:
            caller = frame_above(2)
            site = caller.f_code, caller.f_lasti
            is_workers = get_worker_info() is not None or caller.f_code.co_name == WORKER_LOOP
            if not is_workers and site not in seen and not caller.f_code.co_filename.startswith(PROBE):
                seen.add(site)
                plain = (each for each in (*args, *options.values()) if isinstance(each, (int, str, torch.dtype)))
                events.write(SettingMade, function=function, values=tuple(map(str, plain)), stack=stack_here(2))

        return note

    _after(DataLoader, "__init__", note_loader)
    for mode in (torch.autograd.set_detect_anomaly, torch.autograd.detect_anomaly):
        _after(mode, "__init__", note_setting("detect_anomaly"))
    for owner, function in [
        (torch, "set_num_threads"),
        (torch, "set_default_dtype"),
        (nn.Module, "double"),
        (nn.Module, "to"),
    ]:
        _after(owner, function, note_setting(function))


def _after(owner: Any, name: str, do: Callable[..., None]) -> None:
    """Call `do` with the same arguments after each call of a function."""
    original = getattr(owner, name)

    def call(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        do(*args, **options)
        return result

    replace_function(owner, name, call)
