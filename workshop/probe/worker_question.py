"""Notes whether a script asks which of a DataLoader's workers it runs in."""

import os
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above
from workshop.probe.observations import WorkerAsked
from workshop.probe.replaced_function import replace_function

WORKSHOP = os.path.dirname(os.path.dirname(__file__))


def note_question(events: EventFile, module: Any) -> None:
    """Note the first `get_worker_info()` of each process; `module` is torch.utils.data._utils.worker."""
    original, asked = module.get_worker_info, set[int]()
    of_torch = module.__file__.rpartition("/utils/data/")[0] or module.__file__
    not_the_script = (f"{of_torch}/", f"{WORKSHOP}/")  # questions of these say nothing about the script

    def get_worker_info() -> Any:
        pid = os.getpid()
        if pid not in asked and not frame_above(1).f_code.co_filename.startswith(not_the_script):
            asked.add(pid)
            events.write(WorkerAsked)
        return original()

    replace_function(module, "get_worker_info", get_worker_info)
