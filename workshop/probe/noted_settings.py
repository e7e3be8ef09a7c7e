"""Notes where a script makes its DataLoaders, and where it calls what decides how everything is computed."""

import itertools
import os
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import nn
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader, get_worker_info

from workshop.probe.event_file import EventFile
from workshop.probe.imports import after_import
from workshop.probe.internals import WORKER_LOOP, frame_above
from workshop.probe.observations import LoaderMade, SettingMade, WireFrame
from workshop.probe.replaced_function import replace_function
from workshop.probe.stack_sampler import stack_here

HOW_OFTEN = """
val_check_interval check_val_every_n_epoch log_every_n_steps eval_strategy eval_steps save_steps logging_steps
""".split()
"""The settings of a framework's trainer that say how often something is done."""

PROBE = os.path.dirname(__file__)

HOOKS = tuple(os.path.join(PROBE, name) for name in ("hooks.py", "phase_clock.py"))
"""The files of what may stand between a call and the function that is called."""

_NUMBER, _SITE = "_workshop_number", "_workshop_site"

_made: WeakValueDictionary[int, DataLoader[Any]] = WeakValueDictionary()
_sites: dict[int, object] = {}


def loader_number(loader: DataLoader[Any]) -> int:
    """Return the number that a DataLoader was given as it was made; -1 for none."""
    number: int = loader.__dict__.get(_NUMBER, -1)
    return number


def loader_site(loader: DataLoader[Any]) -> object:
    """Return where a DataLoader was made."""
    return loader.__dict__.get(_SITE, id(loader))


def optimizer_site(optimizer: Optimizer) -> tuple[WireFrame, ...]:
    """Return the user's frames in which an optimizer was made; none if that was not seen."""
    site: tuple[WireFrame, ...] = optimizer.__dict__.get(_SITE, ())
    return site


def site_of(number: int) -> object:
    """Return where the DataLoader of this number was made, also if it is gone; None if there was none."""
    return _sites.get(number)


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
            loader.__dict__[_SITE] = _sites[loader_number(loader)] = stack_here(2)
            number, site, dataset = loader_number(loader), loader.__dict__[_SITE], id(loader.dataset)
            events.write(LoaderMade, loader=number, stack=site, dataset=dataset)

    def note_setting(function: str) -> Callable[..., None]:
        def note(*args: Any, **options: Any) -> None:
            caller: FrameType = frame_above(2)
            while caller.f_code.co_filename in HOOKS and caller.f_back is not None:
                caller = caller.f_back
            site = caller.f_code, caller.f_lasti
            is_workers = get_worker_info() is not None or caller.f_code.co_name == WORKER_LOOP
            if not is_workers and site not in seen and not caller.f_code.co_filename.startswith(PROBE):
                seen.add(site)
                plain = (each for each in (*args, *options.values()) if isinstance(each, (int, str, torch.dtype)))
                events.write(SettingMade, function=function, values=tuple(map(str, plain)), stack=stack_here(2))

        return note

    def note_optimizer(optimizer: Optimizer, *_: Any, **__: Any) -> None:
        optimizer.__dict__[_SITE] = site = stack_here(2)
        events.write(SettingMade, function="Optimizer", values=(type(optimizer).__name__,), stack=site)

    _after(DataLoader, "__init__", note_loader)
    for mode in (torch.autograd.set_detect_anomaly, torch.autograd.detect_anomaly):
        _after(mode, "__init__", note_setting("detect_anomaly"))
    _after(nn.Embedding, "__init__", note_setting("Embedding"))
    _after(Optimizer, "__init__", note_optimizer)

    def note_trainer(settings: Any, *_: Any, **__: Any) -> None:
        values = tuple(f"{name}={getattr(settings, name)}" for name in HOW_OFTEN if hasattr(settings, name))
        events.write(SettingMade, function="Trainer", values=values, stack=stack_here(2))

    for name in ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"):
        after_import(name, lambda module: _after(module.Trainer, "__init__", note_trainer))
    after_import(
        "transformers.training_args", lambda module: _after(module.TrainingArguments, "__post_init__", note_trainer)
    )
    for owner, function in [
        (torch, "set_num_threads"),
        (torch, "set_default_dtype"),
        (Optimizer, "zero_grad"),
        (nn.Module, "zero_grad"),
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
