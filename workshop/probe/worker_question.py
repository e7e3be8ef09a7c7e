"""Notes whether a script asks which of a DataLoader's workers it runs in."""

import os
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above
from workshop.probe.observations import WorkerAsked
from workshop.probe.replaced_function import replace_function

NOT_THE_SCRIPT = ("/torch/", os.path.dirname(__file__))
"""Parts of the paths of code whose questions say nothing about the script."""


def note_question(events: EventFile, module: Any) -> None:
    """Note the first `get_worker_info()` of each process; `module` is torch.utils.data._utils.worker."""
    original, asked = module.get_worker_info, set[int]()

    def get_worker_info() -> Any:
        if (pid := os.getpid()) not in asked:
            path = frame_above(1).f_code.co_filename
            if not any(each in path for each in NOT_THE_SCRIPT):
                asked.add(pid)
                events.write(WorkerAsked)
        return original()

    replace_function(module, "get_worker_info", get_worker_info)
