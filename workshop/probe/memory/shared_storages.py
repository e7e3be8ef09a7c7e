"""Follows storages that move to shared memory, as those of a dataset do that is sent to a worker that is spawned."""

import os
from collections.abc import Callable
from typing import Any

import torch

from workshop.probe.audience import Audience
from workshop.probe.internals import SHARING
from workshop.probe.memory.storage_lives import StorageLives
from workshop.probe.replaced_function import replace_function


def watch_sharing(lives_now: Callable[[], StorageLives], audience: Audience) -> None:
    """Tell of each storage that moves, in this process, also if another thread sends it.

    Args:
        lives_now: returns the storages that are known.
        audience: takes care of what fails.
    """
    for name in SHARING:
        share = _watched(getattr(torch.UntypedStorage, name), lives_now, audience)
        replace_function(torch.UntypedStorage, name, share)


def _watched(
    original: Callable[..., Any], lives_now: Callable[[], StorageLives], audience: Audience
) -> Callable[..., Any]:
    pid = os.getpid()

    def share(storage: Any, *args: Any, **options: Any) -> Any:
        lives = lives_now()
        life = None if storage.is_shared() else lives.alive.get(storage._cdata)
        result = original(storage, *args, **options)
        if life is not None and os.getpid() == pid:
            with audience:
                lives.moved(life, storage)
        return result

    return share
